"""What a gate does with each message, and that holding one does not count against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from contracts.generate import flows
from prometheus_client import CollectorRegistry

from slackwater.bus.admin.streams import load
from slackwater.bus.consume.agent_blocks import HOLD_SECONDS, BlockGate, Blocks, blocks_of
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.stats import Counters
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Payload
from slackwater.events.node_described import NodeDescribed
from slackwater.events.registry import EVENTS
from slackwater.events.usage_reported import UsageReported
from slackwater.telemetry.metrics import Meters

NOW = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass
class Delivered:
    """A message in hand; `words` is how it was settled."""

    subject: str
    deliveries: int = 1
    stream_sequence: int = 7
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    pending: int = 0
    stored_at_seconds: float = 0.0
    words: list[str] = field(default_factory=list)

    async def ack(self) -> None:
        self.words.append("ack")

    async def nak(self, delay_seconds: float) -> None:
        self.words.append(f"nak {delay_seconds:g}")

    async def term(self) -> None:
        self.words.append("term")

    async def in_progress(self) -> None:
        self.words.append("in progress")


class World:
    """Gates around one set of blocks."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self.counters = Counters()
        self.registry = CollectorRegistry()
        self.meter = BusMetrics(Meters(self.registry)).of("c")

    def gate(self, payload: type[Payload] = UsageReported) -> BlockGate:
        keeps_last = load().keeps_last(payload.STREAM)
        return BlockGate(payload, lambda: self.blocks, self.counters, self.meter, keeps_last=keeps_last)

    def set(self, node: str, *, blocked: bool) -> None:
        change = AgentBlockChanged(node=node, blocked=blocked, reason="r", changed_by="ada", since=NOW)
        self.blocks.note(change)

    @property
    def counted(self) -> float | None:
        return self.registry.get_sample_value("slackwater_bus_blocked_total", {"consumer": "c"})


@pytest.fixture
def world() -> World:
    return World()


async def test_a_message_of_a_blocked_agent_is_acknowledged_unread_and_counted(world: World) -> None:
    world.set("edge.7", blocked=True)
    bad, good = Delivered("sw.v1.usage.reported.3.edge=2E7"), Delivered("sw.v1.usage.reported.3.edge-7")
    assert await world.gate().admit([bad, good]) == [good]
    assert (bad.words, good.words) == (["ack"], [])
    assert (world.counted, world.counters.done) == (1.0, 1)


async def test_the_subject_says_whether_an_agent_sent_it_and_not_a_header(world: World) -> None:
    world.set("n", blocked=True)
    forged = Delivered("sw.v1.node.described.3.n", headers={"ce-source": "ingestion"})
    of_service = Delivered("sw.v1.node.described.3.n.ingestion")
    assert await world.gate(NodeDescribed).admit([forged, of_service]) == [of_service]


async def test_a_description_is_held_and_its_tries_begin_with_the_end_of_the_block(world: World) -> None:
    gate, subject = world.gate(NodeDescribed), "sw.v1.node.described.3.n"
    world.set("n", blocked=True)
    held = Delivered(subject, deliveries=40)
    assert await gate.admit([held]) == []
    assert held.words == [f"nak {HOLD_SECONDS:g}"]
    assert world.counted == 0.0
    world.set("n", blocked=False)
    first, again, newer = Delivered(subject, 41), Delivered(subject, 42), Delivered(subject, 1, 8)
    counts = [delivery.deliveries for delivery in await gate.admit([first, again, newer])]
    assert counts == [1, 2, 1]


async def test_a_released_delivery_is_the_delivery_in_everything_else(world: World) -> None:
    world.set("n", blocked=False)
    delivery = Delivered("sw.v1.node.described.3.n", deliveries=5, headers={"a": "b"}, body=b"x", pending=3)
    (released,) = await world.gate(NodeDescribed).admit([delivery])
    assert (released.subject, released.headers, released.body) == (delivery.subject, {"a": "b"}, b"x")
    assert (released.stream_sequence, released.stored_at_seconds, released.pending) == (7, 0.0, 3)
    await released.ack()
    await released.nak(2)
    await released.term()
    await released.in_progress()
    assert delivery.words == ["ack", "nak 2", "term", "in progress"]


def test_only_blocks_in_force_are_listed(world: World) -> None:
    world.set("b", blocked=True)
    world.set("a", blocked=True)
    world.set("c", blocked=True)
    world.set("c", blocked=False)
    assert list(world.blocks.in_force()) == ["a", "b"]
    assert blocks_of(object()).is_empty


def test_what_agents_publish_is_what_a_block_stops() -> None:
    publishes = {flow.service: set(flow.publishes) for flow in flows()}
    assert {payload.TYPE for payload in EVENTS if payload.FROM_AGENT} == publishes["agent"]
    shared = {(payload.TYPE, service) for payload in EVENTS for service in payload.ALSO_FROM}
    others = {service: events & publishes["agent"] for service, events in publishes.items() if service != "agent"}
    assert {(event, service) for service, events in others.items() for event in events} == shared


def test_streams_that_keep_the_last_value_of_each_subject() -> None:
    topology = load()
    assert {name for name in topology.streams if topology.keeps_last(name)} == {"STATE", "INTENTS"}
