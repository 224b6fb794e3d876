"""Dead letters of agents: named, counted by node, and so many that the queue stays readable; in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from tests.support.clock import FakeClock

from slackwater.agent import PUBLISHES
from slackwater.bus.admin.streams import load
from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.connect.access import AGENT_MESSAGE_BYTES
from slackwater.bus.consume.dead_letter_store import (
    AGENT_EVENTS,
    CUT_BYTES,
    LETTER_SECONDS,
    LETTERS_AT_ONCE,
    WHOLE_AT_ONCE,
    WHOLE_SECONDS,
    DeadLetterStore,
)
from slackwater.bus.consume.dead_letters import BODY_BYTES, HEADER_CHARACTERS, DeadLetter
from slackwater.bus.consume.metrics import MOST_NODES, BusMetrics
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.telemetry.metrics import Meters


@dataclass
class Dlq:
    """Refuses whatever is larger than `takes` bytes, as the client does."""

    takes: int = BODY_BYTES
    away: bool = False
    stored: list[Message] = field(default_factory=list)

    async def __call__(self, letter: DeadLetter, message: Message) -> None:
        if self.away:
            raise Unavailable("away")
        if len(message.body) + sum(map(len, message.headers.values())) > self.takes:
            raise InvalidInput("too large", code="message_too_large")
        self.stored.append(message)


class Scene:
    def __init__(self, takes: int = BODY_BYTES + 10_000) -> None:
        self.registry = CollectorRegistry()
        self.clock, self.dlq = FakeClock(), Dlq(takes)
        self.office = DeadLetterStore(self.dlq, self.clock, BusMetrics(Meters(self.registry)))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"slackwater_bus_{name}_total", labels)


def letter(node: str = "n1", event: str = "usage.reported", number: int = 1, **more: object) -> DeadLetter:
    made = {"consumer": "ingestion-usage-reported", "headers": {"ce-id": "i"}, "body": b"{}", "reason": "r", **more}
    return DeadLetter(detail="d", subject=f"sw.v1.{event}.7.{node}", stream_sequence=number, **made)  # type: ignore[arg-type]


def test_the_events_of_agents_are_what_the_agent_says_that_it_publishes() -> None:
    assert set(PUBLISHES) == AGENT_EVENTS.keys()


async def test_twenty_letters_at_once_then_one_in_ten_seconds_with_the_number_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    stored = [await scene.office.bury(letter(number=number)) for number in range(100)]
    assert stored == [True] * LETTERS_AT_ONCE + [False] * 80
    assert caplog.text.count("dead letters dropped") == 1
    since = scene.clock.now().isoformat(timespec="seconds")
    await scene.clock.advance(LETTER_SECONDS)
    assert await scene.office.bury(letter(number=101))
    assert scene.dlq.stored[-1].headers["sw-also-dropped"] == f"80 since {since}"
    assert not await scene.office.bury(letter(number=102))
    assert caplog.text.count("dead letters dropped") == 2
    assert scene.value("dead_letters_dropped", consumer="ingestion-usage-reported") == 81
    assert scene.value("dead_letters_by_node", node="n1") == 102


async def test_another_node_and_another_consumer_have_letters_of_their_own() -> None:
    scene = Scene()
    for number in range(50):
        await scene.office.bury(letter(number=number))
    assert await scene.office.bury(letter("n2"))
    assert await scene.office.bury(letter(consumer="console-usage-reported"))
    assert "sw-also-dropped" not in scene.dlq.stored[-1].headers


@pytest.mark.parametrize(
    ("event", "key", "is_limited"),
    [
        ("usage.windowed", "n1", False),
        ("peak.predicted", "n1", False),
        ("decision.recorded", "n1.id", False),
        ("agent.decision_recorded", "n1", True),
        ("eviction.completed", "n1.ensurance", True),
        ("eviction.completed", "n1.ensurance.kubernetes", False),
        ("node.described", "n1", True),
        ("node.described", "n1.ingestion", False),
    ],
)
@pytest.mark.parametrize("source", ["ingestion", "agent/n1", ""])
async def test_facts_between_services_are_never_dropped(event: str, key: str, is_limited: bool, source: str) -> None:
    """The subject says whose it is, whatever source its headers name."""
    scene = Scene()
    headers = {"ce-source": source} if source else {}
    stored = [await scene.office.bury(letter(key, event=event, number=n, headers=headers)) for n in range(100)]
    assert all(stored) is not is_limited
    assert (scene.value("dead_letters_by_node", node="n1") is not None) is is_limited


async def test_fifty_nodes_have_a_name_in_the_metric_and_memory_is_bounded() -> None:
    scene = Scene()
    for number in range(5000):
        await scene.office.bury(letter(f"n{number}"))
    assert scene.value("dead_letters_by_node", node="n0") == 1
    assert scene.value("dead_letters_by_node", node="other") == 5000 - MOST_NODES
    assert len(scene.office._buckets) <= 4096


async def test_a_letter_that_is_not_stored_now_keeps_its_count_of_what_was_dropped() -> None:
    scene = Scene()
    for number in range(30):
        await scene.office.bury(letter(number=number))
    await scene.clock.advance(LETTER_SECONDS)
    scene.dlq.away = True
    with pytest.raises(Unavailable):
        await scene.office.bury(letter(number=31))
    scene.dlq.away = False
    await scene.clock.advance(LETTER_SECONDS)
    assert await scene.office.bury(letter(number=31))
    assert scene.dlq.stored[-1].headers["sw-also-dropped"].startswith("10 since ")


@pytest.mark.parametrize(("takes", "body"), [(BODY_BYTES + 10_000, 1_000_000), (60_000, CUT_BYTES), (1_000, 0)])
async def test_a_letter_that_is_too_large_is_stored_in_a_smaller_form(takes: int, body: int) -> None:
    scene = Scene(takes)
    headers = {"ce-id": "i", "traceparent": "t", **{f"x-{number}": "y" * 500 for number in range(40)}}
    assert await scene.office.bury(letter(headers=headers, body=b"b" * 1_000_000))
    (stored,) = scene.dlq.stored
    assert len(stored.body) == body
    assert (stored.headers["ce-id"], stored.headers["traceparent"], stored.headers["sw-reason"]) == ("i", "t", "r")
    assert stored.headers.get("sw-cut-from-bytes") == (None if body == 1_000_000 else "1000000")


async def test_large_letters_of_an_agent_are_cut_and_displace_no_other() -> None:
    scene = Scene()
    for number in range(LETTERS_AT_ONCE):
        assert await scene.office.bury(letter(number=number, body=b"b" * 1_000_000))
    sizes = [len(stored.body) for stored in scene.dlq.stored]
    assert sizes == [1_000_000] * WHOLE_AT_ONCE + [CUT_BYTES] * (LETTERS_AT_ONCE - WHOLE_AT_ONCE)
    assert scene.dlq.stored[-1].headers["sw-cut-from-bytes"] == "1000000"
    assert await scene.office.bury(letter("n2", body=b"b" * 100_000))
    assert len(scene.dlq.stored[-1].body) == 100_000
    await scene.clock.advance(WHOLE_SECONDS)
    assert await scene.office.bury(letter(number=99, body=b"b" * 100_000))
    assert len(scene.dlq.stored[-1].body) == 100_000


async def test_the_letters_of_one_agent_displace_no_others_for_an_hour() -> None:
    """In none of the consumers that read agents, each with its letters at once and as many as an hour allows."""
    topology, hour, scene = load(), 3600.0, Scene()
    consumers = [name for name, spec in topology.consumers.items() if spec.event in AGENT_EVENTS]
    services = {name.split("-")[0] for name in consumers}
    headers = {f"ce-{number}": "y" * HEADER_CHARACTERS for number in range(40)}
    assert await scene.office.bury(letter(headers=headers, body=b"b" * CUT_BYTES))
    (stored,) = scene.dlq.stored
    largest = len(stored.body) + sum(len(name) + len(text) for name, text in stored.headers.items()) + 1000
    cut = len(consumers) * (LETTERS_AT_ONCE + hour / LETTER_SECONDS) * largest
    whole = len(services) * (WHOLE_AT_ONCE + hour / WHOLE_SECONDS) * AGENT_MESSAGE_BYTES
    assert cut + whole < (topology.streams["DLQ"].max_bytes or 0)


async def test_a_letter_that_fits_in_no_form_is_lost_with_a_word_and_does_not_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(takes=10)
    assert not await scene.office.bury(letter())
    assert "dead letter lost" in caplog.text


HOSTILE = {
    "ce-id": "a\r\nNats-Msg-Id: forged",
    "x-surrogate": "\ud800",
    "bad name": "v",
    "bad:name": "v",
    "näme": "v",
    "": "v",
    "sw-node": "another",
    "SW-Reason": "forged",
    "x-control": "a\x00b\x7f",
}


async def test_headers_of_a_letter_can_be_sent_whatever_the_message_carried() -> None:
    scene = Scene()
    assert await scene.office.bury(letter(headers=HOSTILE))
    headers = scene.dlq.stored[0].headers
    for name, text in headers.items():
        assert name.isascii()
        assert " " not in name
        assert not any(ord(character) < 32 or ord(character) == 127 for character in text)
        text.encode()
    assert headers["sw-node"] == "n1"
    assert [name for name in headers if name.lower() == "sw-reason"] == ["sw-reason"]


async def test_long_headers_of_a_message_are_not_in_its_letter() -> None:
    scene = Scene()
    assert await scene.office.bury(letter(headers={"ce-id": "1", "x-long": "x" * (HEADER_CHARACTERS + 1), "x": "y"}))
    assert {"x-long", "x"} & scene.dlq.stored[0].headers.keys() == {"x"}
