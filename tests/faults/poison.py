"""Invalid messages: every event type, mutated by tests/faults/mutations."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.contract.samples import sample_of
from tests.faults.mutations import Mutation, fresh, mutations_of
from tests.support.story import Character, story
from tests.support.story_resources import resources
from tests.support.windows import window

from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted
from slackwater.events.registry import EVENTS
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.rosters import no_roster
from slackwater.events.state_quarantined import QuarantineReason, StateQuarantined
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import URGENT_TRIGGER, WaterlineCrossed, crossing_of

NODE = "poison"
OF_AGENTS: tuple[type[Payload], ...] = (
    NodeDescribed, UsageReported, WaterlineCrossed, IntentObserved, EvictionCompleted, AgentDecisionRecorded,
)  # fmt: skip
"""The event types that an agent may publish on its own node's subjects."""


def valid_events(now: datetime, node: str = NODE) -> dict[type[Payload], Event[Any]]:
    """One valid event of each type, about `node` if the type has a node: from the story, or made from its schema."""
    found: dict[type[Payload], Event[Any]] = {
        payload: event_of(payload.from_document(sample_of(payload), no_roster), source="poison", time=now)
        for payload in EVENTS
    }
    found |= {type(event.data): event for event in story(now, (Character(node, 8000, 2000, surges=True),))}
    found[UsageWindowed] = window(node, 1, {"a": 500})
    urgent = found[UsageReported].data.model_copy(update={"trigger": URGENT_TRIGGER})
    crossing = crossing_of(event_of(urgent, source=node, time=now))
    assert crossing is not None
    found[WaterlineCrossed] = crossing
    alone = AgentDecisionRecorded(record=found[DecisionRecorded].data.record)
    found[AgentDecisionRecorded] = event_of(alone, source=f"agent/{node}", time=now)
    found[ResourceChanged] = resources(now)[0]
    for payload in _not_in_the_story(now, node):
        found[type(payload)] = event_of(payload, source=f"agent/{node}", time=now)
    return {payload: found[payload].model_copy(update={"time": now}) for payload in EVENTS}


def _not_in_the_story(now: datetime, node: str) -> Iterator[Payload]:
    yield IntentDeclared(
        node=node, writer="poison", generation=1, declared_at=now, lease_seconds=10,
        throttles=(CpuThrottle(pod_uid="p", cpu_limit_milli=100, decision_id="d"),),
        evictions=(Eviction(id="e", pod_uid="p", grace_seconds=1, deadline=now, reason="r", decision_id="d"),),
    )  # fmt: skip
    yield EvictionCompleted(
        id="e", node=node, pod_uid="p", writer="ensurance", completed_at=now, decision_id="d",
        outcome=EvictionOutcome.KILLED,
    )  # fmt: skip
    yield StrategyChecked(node=node, usable=True, problem="", followed=(), checked_at=now)
    yield NodeSchedulingChanged(
        node=node, closed=True, reason="scheduling_waterline_crossed", decision_id="d", rules=("p.r",), since=now,
        told_at=now, valid_until=now,
    )  # fmt: skip
    yield StrategyFollowed(document="poison", generation=1, fields={"riseWindows": 3}, told_at=now)
    long_ago = now - timedelta(days=365)  # what was issued before a change is refused
    yield AgentBlockChanged(node=node, blocked=False, reason="poison", changed_by="poison", since=long_ago)
    yield ResourceChanged(
        service="ensurance", kind="NodeQOS", name="poison", generation=1, changed_at=now, document={"kind": "NodeQOS"}
    )  # fmt: skip
    yield QuotaAccounted(
        tree="poison", generation=1, total={"cpu": 1000}, accounted_at=now,
        quotas=(AccountedQuota(name="q", parent="root", depth=1, max={"cpu": 1000}),),
    )  # fmt: skip
    yield StateQuarantined(
        service="ingestion", id="i", table="nodes", row=node, node=node, reason=QuarantineReason.UNREADABLE, detail="d",
        since=now, count=1, told_at=now,
    )  # fmt: skip


Corpus = Mapping[type[Payload], Sequence[Mutation]]


def corpus(now: datetime, payloads: Collection[type[Payload]] = EVENTS) -> Corpus:
    """Every mutation of each event type."""
    valid = valid_events(now)
    return {payload: list(mutations_of(valid[payload])) for payload in payloads}


def mutations_in(found: Corpus, payloads: Iterable[type[Payload]]) -> list[Mutation]:
    """The mutations of these event types."""
    return [mutation for payload in payloads for mutation in found[payload]]


def stream_of(mutations: Collection[Mutation]) -> Iterator[Mutation]:
    """Endless: takes the next mutation of each family in turn, so that one minute covers all families."""
    families: dict[tuple[str, type[Payload]], deque[Mutation]] = defaultdict(deque)
    for mutation in mutations:
        families[mutation.family, mutation.payload].append(mutation)
    while True:
        for waiting in families.values():
            yield fresh(waiting[0])
            waiting.rotate(-1)
