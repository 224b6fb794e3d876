"""Messages that nobody should have sent: for every event type, everything that can be wrong with one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slackwater.bus.encoding import encode
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.registry import EVENTS
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import URGENT_TRIGGER, WaterlineCrossed, crossing_of
from slackwater.testing.story import Character, story
from slackwater.testing.windows import window

NODE = "poison"
MAX_MESSAGE = 1024 * 1024
_HOSTILE = (
    float("nan"), float("inf"), -float("inf"), 1e308, -1, 2**63, -(2**70), 10**400, "", "\x00", "\ud800", "x" * 70_000,
    None, True, [], {}, [[[]]], "../../etc/passwd", "'; DROP TABLE nodes; --", "9999-99-99T99:99:99Z",
    "0001-01-01T00:00:00+00:00",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Poison:
    """`undecodable`: no version of ours can read it, so each durable reader must bury it with a reason."""

    kind: str
    payload: type[Payload]
    subject: str
    headers: dict[str, str]
    body: bytes
    undecodable: bool


def corpus(now: datetime, per_type: int) -> list[Poison]:
    """For every event type the classic wrongs, and `per_type` valid ones with one value each turned hostile."""
    found: list[Poison] = []
    for event in _valid(now):
        found += _classics(event)
        found += _turned(event, per_type)
    return found


def _valid(now: datetime) -> Iterator[Event[Any]]:
    """One well-formed event of each type, on a node of its own."""
    told = {type(event.data): event for event in story(now, (Character(NODE, 8000, 2000, surges=True),))}
    told[type(window(NODE, 1, {}).data)] = window(NODE, 1, {"a": 500})
    intent = IntentDeclared(
        node=NODE, writer="poison", generation=1, declared_at=now, lease_seconds=10,
        throttles=(CpuThrottle(pod_uid="p", cpu_limit_milli=100, decision_id="d"),),
        evictions=(Eviction(id="e", pod_uid="p", grace_seconds=1, deadline=now, reason="r", decision_id="d"),),
    )  # fmt: skip
    told[IntentDeclared] = event_of(intent, source="poison", time=now)
    completed = EvictionCompleted(id="e", node=NODE, pod_uid="p", writer="poison", completed_at=now, decision_id="d",
                                  outcome=EvictionOutcome.KILLED)  # fmt: skip
    told[EvictionCompleted] = event_of(completed, source="poison", time=now)
    urgent = told[UsageReported].data.model_copy(update={"trigger": URGENT_TRIGGER})
    crossing = crossing_of(event_of(urgent, source="poison", time=now))
    assert crossing is not None
    told[WaterlineCrossed] = crossing
    checked = StrategyChecked(node=NODE, usable=True, problem="", followed=(), checked_at=now)
    told[StrategyChecked] = event_of(checked, source="poison", time=now)
    closed = NodeSchedulingChanged(
        node=NODE, closed=True, reason="scheduling_waterline_crossed", decision_id="d", rules=("p.r",), since=now,
        told_at=now, valid_until=now,
    )  # fmt: skip
    told[NodeSchedulingChanged] = event_of(closed, source="poison", time=now)
    followed = StrategyFollowed(document="poison", generation=1, fields={"riseWindows": 3}, told_at=now)
    told[StrategyFollowed] = event_of(followed, source="poison", time=now)
    block = AgentBlockChanged(node=NODE, blocked=False, reason="poison", changed_by="poison", since=now)
    told[AgentBlockChanged] = event_of(block, source="poison", time=now)
    for payload in EVENTS:
        yield told[payload].model_copy(update={"time": now})


def _classics(event: Event[Any]) -> Iterator[Poison]:
    whole = encode(event)
    headers, payload = dict(whole.headers), type(event.data)

    def poison(kind: str, headers: dict[str, str], body: bytes, *, undecodable: bool = True) -> Poison:
        return Poison(kind, payload, whole.subject, headers, body, undecodable)

    deep = 20_000
    yield poison("not JSON", _own(headers), b"\xff\xfe\x00 not JSON at all")
    yield poison("empty body", _own(headers), b"")
    yield poison("half a body", _own(headers), whole.body[: len(whole.body) // 2])
    yield poison("deep arrays", _own(headers), b"[" * deep + b"]" * deep)
    yield poison("deep objects", _own(headers), b'{"a":' * deep + b"1" + b"}" * deep)
    yield poison("a number", _own(headers), b"42")
    yield poison("NaN", _own(headers), b"NaN")
    yield poison("huge", _own(headers), b'{"x": "' + b"y" * 900_000 + b'"}')
    own = _own(headers)
    block = len("NATS/1.0\r\n\r\n") + sum(len(f"{k}: {v}\r\n".encode()) for k, v in own.items())
    yield poison("as large as fits", own, b"y" * (MAX_MESSAGE - block))
    yield poison("large headers", {**own, "x-large": "z" * 900_000}, b"?")
    yield poison("no headers", {}, whole.body)
    for name in ("ce-id", "ce-type", "ce-source", "ce-time", "ce-specversion"):
        yield poison(f"without {name}", {k: v for k, v in _own(headers).items() if k != name}, whole.body)
    yield poison("another type", {**_own(headers), "ce-type": "io.slackwater.no.such.v1"}, whole.body)
    yield poison("a later version", {**_own(headers), "ce-type": headers["ce-type"][:-1] + "9"}, whole.body)
    yield poison("a time without a zone", {**_own(headers), "ce-time": "2026-01-01T00:00:00"}, whole.body)
    yield poison("an id that is no UUID", {**_own(headers), "ce-id": "not-a-uuid"}, whole.body, undecodable=False)
    yield poison("a hostile id", {**_own(headers), "ce-id": "%00%27--"}, whole.body, undecodable=False)
    yield poison("a hostile trace", {**_own(headers), "traceparent": "%00" * 50}, whole.body, undecodable=False)


def _own(headers: dict[str, str]) -> dict[str, str]:
    """An id of its own, so that the broker does not take it for a repeat; no message id at all."""
    return {k: v for k, v in headers.items() if k != "Nats-Msg-Id"} | {"ce-id": str(uuid.uuid4())}


def _turned(event: Event[Any], count: int) -> list[Poison]:
    """`count` copies with one value somewhere replaced; hypothesis chooses where and by what, the same each time."""
    whole, payload = encode(event), type(event.data)
    document = json.loads(whole.body)
    places = list(_places(document))
    found: list[Poison] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(place=st.sampled_from(places), value=st.sampled_from(_HOSTILE) | st.recursive(
        st.none() | st.floats() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5))  # fmt: skip
    def collect(place: tuple[Any, ...], value: Any) -> None:
        copy = json.loads(whole.body)
        _put(copy, place, value)
        text = json.dumps(copy, ensure_ascii=True)
        found.append(Poison(f"{'.'.join(map(str, place))} turned", payload, whole.subject, _own(dict(whole.headers)),
                            text.encode(), undecodable=False))  # fmt: skip

    collect()
    return found[:count]


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*before, key)
        yield from _places(one, (*before, key))


def _put(document: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        document = document[key]
    document[place[-1]] = value


def fresh_corpus(per_type: int) -> list[Poison]:
    return corpus(datetime.now(UTC), per_type)
