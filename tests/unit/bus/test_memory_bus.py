"""What only the twin can show: redelivery in virtual time, and a bus that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.bus.port import Done, Received, Retry, Settlement
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "console-node-liveness-changed"


def changed(node: str) -> Event[NodeLivenessChanged]:
    data = NodeLivenessChanged(node=node, liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW)
    return event_of(data, source="test", time=NOW)


async def test_redelivery_follows_the_given_clock_with_growing_pauses() -> None:
    clock = FakeClock()
    at: list[float] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        at.append(clock.monotonic())
        return [Retry("away")]

    bus = MemoryBus(clock=clock)
    async with bus.consume(NodeLivenessChanged, CONSUMER, handler):
        await bus.publish(changed("a"))
        await clock.advance(0)
        for _ in range(100):
            await clock.advance(0.5)
    assert at == [0, 0.5, 2.5, 12.5, 42.5]
    assert [letter.reason for letter in bus.dead_letters] == ["max_deliver"]


async def test_a_process_that_dies_with_a_message_in_hand_leaves_it_to_the_next_after_ack_wait() -> None:
    clock = FakeClock()
    broker = MemoryBroker(clock=clock)
    await MemoryBus(broker).publish(changed("a"))
    assert [d.deliveries for d in broker.fetch(CONSUMER, 10)] == [1]
    assert broker.fetch(CONSUMER, 10) == []
    await clock.advance(30)
    assert [d.deliveries for d in broker.fetch(CONSUMER, 10)] == [2]


async def test_a_bus_that_is_away_says_so() -> None:
    bus = MemoryBus(clock=FakeClock())
    bus.broker.away = True
    with pytest.raises(Unavailable):
        await bus.publish(changed("a"))
    assert not await bus.connected()
    assert bus.published == []


async def test_idle_waits_until_everything_due_is_handled() -> None:
    handled: list[str] = []

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        await asyncio.sleep(0)
        handled.extend(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    bus = MemoryBus(clock=FakeClock())
    async with bus.consume(NodeLivenessChanged, CONSUMER, handler, batch=1):
        for node in "abc":
            await bus.publish(changed(node))
        await bus.idle()
        assert handled == ["a", "b", "c"]
