from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from test_block_gate import Delivered

from slackwater.bus.consume.agent_rates import (
    AT_ONCE,
    BYTES_AT_ONCE,
    BYTES_EVERY_SECONDS,
    EVERY_SECONDS,
    HELD_SECONDS,
    RateGate,
    agent_gates,
)
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.stats import Counters
from slackwater.events.envelope import Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.bounds import MOST_DOCUMENT
from slackwater.telemetry.metrics import Meters


class Scene:
    def __init__(self, payload: type[Payload] = EvictionCompleted, *, keeps_last: bool = False) -> None:
        self.registry, self.counters = CollectorRegistry(), Counters()
        metrics = BusMetrics(Meters(self.registry))
        self.gate = RateGate(payload, "c", self.counters, metrics, keeps_last=keeps_last)

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
    assert agent_gates(NodeLivenessChanged, "c", lambda: None, Counters(), metrics, keeps_last=True) == ()  # type: ignore[arg-type,return-value]  # not asked


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
