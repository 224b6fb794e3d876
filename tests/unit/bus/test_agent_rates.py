from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from test_block_gate import Delivered
from tests.support.reports import described, report

from slackwater.bus.admin.streams import ConsumerSpec
from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.agent_rates import (
    AT_ONCE,
    BYTES_AT_ONCE,
    BYTES_EVERY_SECONDS,
    EVERY_SECONDS,
    HELD_SECONDS,
    UNREADABLE_COST,
    AgentRates,
    RateGate,
    agent_gates,
)
from slackwater.bus.consume.cooperative import FLOOD_PAUSE_SECONDS
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.settlement import Settler
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received, Settlement
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.bus.read.watch import WatchDelivery
from slackwater.bus.rosters.known_rosters import PLACE_BYTES, KnownRosters
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.model.bounds import MOST_DOCUMENT, MOST_PODS
from slackwater.model.time import SystemClock
from slackwater.telemetry.metrics import Meters

NOW = datetime(2026, 1, 5, tzinfo=UTC)


async def no_event(node: str, slot: int) -> None:
    """Implements ReadRoster for messages that count by no roster."""


class Scene:
    def __init__(self, payload: type[Payload] = EvictionCompleted, *, keeps_last: bool = False) -> None:
        self.registry, self.counters = CollectorRegistry(), Counters()
        metrics = BusMetrics(Meters(self.registry))
        self.weight = 0
        self.gate = RateGate(
            payload, "c", self.counters, metrics, lambda node: self.weight * (node == "bad"), keeps_last=keeps_last
        )

    def over(self, node: str) -> float | None:
        return self.registry.get_sample_value("slackwater_bus_over_rate_total", {"node": node})


def completed(node: str, stored_at: float = 0.0, **more: Any) -> Delivered:
    return Delivered(f"sw.v1.eviction.completed.3.{node}.ensurance", stored_at_seconds=stored_at, **more)


async def test_what_is_above_the_rate_is_left_unread_counted_and_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    flood = [completed("bad") for _ in range(AT_ONCE + 50)]
    good = completed("good")
    admitted = await scene.gate.admit([*flood, good])
    assert admitted == [*flood[:AT_ONCE], good]
    assert [delivery.words for delivery in flood[AT_ONCE:]] == [["ack"]] * 50
    assert (scene.over("bad"), scene.over("good"), scene.counters.done) == (50.0, None, 50)
    assert caplog.text.count("left unread") == 1


async def test_a_backlog_is_no_flood_since_times_are_those_of_the_broker() -> None:
    backlog = [completed("n", number * EVERY_SECONDS) for number in range(5 * AT_ONCE)]
    assert await Scene().gate.admit(backlog) == backlog


async def test_large_messages_are_bounded_in_bytes_and_those_of_other_nodes_and_later_ones_are_read() -> None:
    size = 1_000_000
    flood = [completed("bad", body=b"x" * size) for _ in range(10)]
    good, later = completed("good", body=b"x" * size), completed("bad", size * BYTES_EVERY_SECONDS, body=b"x" * size)
    assert await Scene().gate.admit([*flood, good, later]) == [*flood[: BYTES_AT_ONCE // size], good, later]


async def test_a_report_weighs_what_it_is_joined_with_and_nothing_else_does() -> None:
    """With a roster of 4,096 pods a report of 300 bytes costs a reader as much as one of a megabyte."""
    small = b"x" * 300
    reports = [[Delivered(f"sw.v1.usage.reported.3.{node}", body=small) for _ in range(9)] for node in ("bad", "n")]
    scene, other = Scene(UsageReported), Scene()
    scene.weight = other.weight = MOST_PODS * PLACE_BYTES
    assert await scene.gate.admit([*reports[0], *reports[1]]) == [*reports[0][:3], *reports[1]]
    answers = [completed("bad") for _ in range(9)]
    assert await other.gate.admit(answers) == answers


async def test_a_message_that_is_delivered_after_later_ones_is_no_flood() -> None:
    later = [completed("n", 60.0 + number, body=b"x" * 1000) for number in range(3)]
    late = [completed("n", float(second), body=b"x" * 1000) for second in range(20)]
    assert await Scene().gate.admit([*later, *late]) == [*later, *late]


async def test_the_largest_report_once_a_second_is_no_flood() -> None:
    reports = [completed("n", float(second), body=b"x" * MOST_DOCUMENT) for second in range(60)]
    assert await Scene().gate.admit(reports) == reports


async def test_a_delivery_that_was_admitted_is_admitted_again() -> None:
    again = [completed("n", deliveries=2) for _ in range(AT_ONCE + 1)]
    assert await Scene().gate.admit(again) == again


async def test_a_service_has_no_rate() -> None:
    of_service = [Delivered("sw.v1.eviction.completed.3.n.ensurance.kubernetes") for _ in range(AT_ONCE + 1)]
    assert await Scene().gate.admit(of_service) == of_service
    metrics = BusMetrics(Meters(CollectorRegistry()))
    assert agent_gates(NodeLivenessChanged, "c", lambda: None, Counters(), metrics, len, keeps_last=True) == ()  # type: ignore[arg-type,return-value]  # not asked


async def test_a_last_value_above_the_rate_is_read_later() -> None:
    scene = Scene(NodeDescribed, keeps_last=True)
    flood = [Delivered("sw.v1.node.described.3.n") for _ in range(AT_ONCE + 1)]
    assert await scene.gate.admit(flood) == flood[:AT_ONCE]
    assert flood[-1].words == [f"nak {HELD_SECONDS:g}"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 0.2)), max_size=600))
async def test_of_each_node_as_many_pass_as_if_it_were_alone(published: list[tuple[str, float]]) -> None:
    now, deliveries = 0.0, []
    for node, seconds in published:
        now += seconds
        deliveries.append(completed(node, now))
    together = await Scene().gate.admit(deliveries)
    for node in "ab":
        own = [delivery for delivery in deliveries if f".{node}." in delivery.subject]
        alone = await Scene().gate.admit(own)
        assert [one for one in together if one in own] == list(alone)
        assert len(alone) <= AT_ONCE + now / EVERY_SECONDS + 1


class Watching:
    """A watch of one type, and what it handed on."""

    def __init__(self, payload: type[Payload], *, keeps_last: bool) -> None:
        registry = CollectorRegistry()
        meters = Meters(registry)
        self.registry, self.seen = registry, list[Any]()
        metrics, unread = BusMetrics(meters), UnreadSubjects(meters)
        rates, rosters = AgentRates(payload, "w", metrics, len), KnownRosters(no_event, metrics, SystemClock())
        self.delivery = WatchDelivery(payload, self._note, Blocks, unread, rates, rosters, keeps_last=keeps_last)

    async def _note(self, event: Event[Any]) -> None:
        self.seen.append(event.data)

    def over(self, node: str) -> float | None:
        return self.registry.get_sample_value("slackwater_bus_over_rate_total", {"node": node})


def usage(node: str, sequence: int) -> Message:
    return encode(event_of(report(node, sequence, NOW), source=f"agent/{node}", time=NOW))


def description(cpu_milli: int) -> Message:
    return encode(event_of(described("bad", NOW, cpu_milli=cpu_milli), source="agent/bad", time=NOW))


async def test_a_watch_decodes_no_more_of_an_agent_than_its_rate() -> None:
    watching = Watching(UsageReported, keeps_last=False)
    await watching.delivery.deliver([*(usage("bad", number) for number in range(AT_ONCE + 50)), usage("good", 1)], 0.0)
    assert [data.sequence for data in watching.seen] == [*range(AT_ONCE), 1]
    assert (watching.over("bad"), watching.over("good")) == (50.0, None)
    await watching.delivery.deliver([usage("bad", 999)], EVERY_SECONDS)
    assert watching.seen[-1].sequence == 999


async def test_a_watch_reads_the_newest_last_value_above_the_rate_once_the_rate_allows_it() -> None:
    watching = Watching(NodeDescribed, keeps_last=True)
    await watching.delivery.deliver([description(1000 + number) for number in range(AT_ONCE + 3)], 0.0)
    assert len(watching.seen) == AT_ONCE
    await watching.delivery.deliver([], 0.0)
    assert (len(watching.seen), watching.over("bad")) == (AT_ONCE, 3.0)
    await watching.delivery.deliver([], 2 * EVERY_SECONDS)
    assert [data.facts.capacity.cpu_milli for data in watching.seen[AT_ONCE:]] == [1000 + AT_ONCE + 2]
    await watching.delivery.deliver([], 9 * EVERY_SECONDS)
    assert len(watching.seen) == AT_ONCE + 1


async def test_a_reader_that_leaves_most_unread_pauses_before_the_next_batch() -> None:
    scene, paused = Scene(), list[float]()

    async def handler(batch: Sequence[Received[EvictionCompleted]]) -> Sequence[Settlement]:
        return [Done()] * len(batch)

    async def bury(*_: object) -> bool:
        return True

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    settler = Settler(
        EvictionCompleted, "c", ConsumerSpec(event="eviction.completed"), handler, bury, scene.counters,
        gates=[scene.gate], sleep=sleep,
    )  # fmt: skip
    await settler.settle([completed("bad") for _ in range(AT_ONCE)])
    assert paused == []
    await settler.settle([*(completed("bad") for _ in range(AT_ONCE)), completed("good")])
    assert paused == [FLOOD_PAUSE_SECONDS]
    await settler.settle([completed("bad"), completed("good")])
    assert paused == [FLOOD_PAUSE_SECONDS]


async def test_what_cannot_be_read_counts_several_times_and_only_for_its_agent() -> None:
    scene, letters = Scene(), list[str]()

    async def handler(batch: Sequence[Received[EvictionCompleted]]) -> Sequence[Settlement]:
        return [Done()] * len(batch)

    async def bury(letter: DeadLetter) -> None:
        letters.append(letter.subject)

    settler = Settler(
        EvictionCompleted, "c", ConsumerSpec(event="eviction.completed"), handler, bury, scene.counters,
        gates=[scene.gate],
    )  # fmt: skip
    for number in range(2 * AT_ONCE):
        await settler.settle([completed("bad", number * EVERY_SECONDS)])
    at_once, later = AT_ONCE / UNREADABLE_COST, 2 * AT_ONCE / UNREADABLE_COST
    assert later <= len(letters) <= at_once + later + 1
    assert scene.over("bad") == 2 * AT_ONCE - len(letters)
    assert await scene.gate.admit([completed("good")])


async def test_a_watch_that_cannot_read_an_agent_reads_less_of_it() -> None:
    watching = Watching(UsageReported, keeps_last=False)
    junk = replace(usage("bad", 1), body=b"{}")
    await watching.delivery.deliver([junk] * AT_ONCE + [usage("bad", 2), usage("good", 1)], 0.0)
    assert [data.node for data in watching.seen] == ["good"]
    assert watching.over("bad") == AT_ONCE - AT_ONCE / UNREADABLE_COST + 1
    await watching.delivery.deliver([usage("bad", 3)], UNREADABLE_COST * EVERY_SECONDS)
    assert [data.sequence for data in watching.seen] == [1, 3]


async def test_a_watch_says_whether_it_left_most_unread() -> None:
    watching = Watching(UsageReported, keeps_last=False)
    assert not await watching.delivery.deliver([usage("bad", number) for number in range(AT_ONCE)], 0.0)
    assert await watching.delivery.deliver([usage("bad", 1), usage("bad", 2), usage("good", 1)], 0.0)
    assert not await watching.delivery.deliver([], 0.0)
