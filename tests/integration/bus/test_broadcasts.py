"""Broadcasts, which no stream stores, on both buses; on the real one also over a restart of the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from jetstream_lab import Server

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.events.envelope import Event, event_of
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def renewed(partition: int, read_up_to: int = 1) -> Event[LeaseRenewed]:
    data = LeaseRenewed(
        writer="ensurance", partition=partition, epoch=1, read_up_to=read_up_to, heard_within_seconds=60, sent_at=NOW
    )
    return event_of(data, source="test", time=NOW)


@dataclass
class Listener:
    """What one subscription has received."""

    heard: list[tuple[int, int]] = field(default_factory=list)

    async def __call__(self, event: Event[LeaseRenewed]) -> None:
        self.heard.append((event.data.partition, event.data.read_up_to))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():
            await asyncio.sleep(0.01)


async def told_until(bus: Any, event: Event[LeaseRenewed], met: Callable[[], bool]) -> None:
    """Broadcasts repeatedly, as services do, because a new subscription may miss the first."""
    async with asyncio.timeout(30):
        while not met():
            await bus.broadcast(event)
            await asyncio.sleep(0.02)


async def test_all_subscribers_of_a_partition_receive_its_broadcasts(given: Any) -> None:
    first, second, other = Listener(), Listener(), Listener()
    async with (
        given.process() as teller,
        given.process() as bus,
        bus.subscribe(LeaseRenewed, first, partition=3),
        bus.subscribe(LeaseRenewed, second, partition=3),
        bus.subscribe(LeaseRenewed, other, partition=4),
    ):
        await told_until(teller, renewed(3), lambda: bool(first.heard and second.heard))
        await told_until(teller, renewed(4), lambda: bool(other.heard))
    assert {*first.heard, *second.heard} == {(3, 1)}
    assert set(other.heard) == {(4, 1)}


async def test_an_unsubscribed_handler_receives_nothing_and_others_continue(given: Any) -> None:
    stays, leaves = Listener(), Listener()
    async with given.process() as bus, bus.subscribe(LeaseRenewed, stays, partition=3):
        async with bus.subscribe(LeaseRenewed, leaves, partition=3):
            await told_until(bus, renewed(3), lambda: bool(leaves.heard))
        before = len(leaves.heard)
        await told_until(bus, renewed(3, 2), lambda: (3, 2) in stays.heard)
        assert len(leaves.heard) == before
    async with given.process() as bus, bus.subscribe(LeaseRenewed, leaves, partition=3):
        await told_until(bus, renewed(3, 3), lambda: (3, 3) in leaves.heard)


async def test_a_broadcast_without_subscribers_is_not_delivered_later(given: Any) -> None:
    listener = Listener()
    async with given.process() as bus:
        await bus.broadcast(renewed(3, 1))
        async with bus.subscribe(LeaseRenewed, listener, partition=3):
            await told_until(bus, renewed(3, 2), lambda: bool(listener.heard))
    assert set(listener.heard) == {(3, 2)}


async def test_a_failing_subscriber_does_not_affect_others(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()

    async def broken(event: Event[LeaseRenewed]) -> None:
        raise ValueError("a defect")

    async with (
        given.process() as bus,
        bus.subscribe(LeaseRenewed, broken, partition=3),
        bus.subscribe(LeaseRenewed, listener, partition=3),
    ):
        await told_until(bus, renewed(3), lambda: len(listener.heard) > 1)
    assert any("broadcast subscriber failed" in record.getMessage() for record in caplog.records)


async def test_a_publish_says_where_it_stands_also_when_it_is_repeated(given: Any) -> None:
    def changed(node: str) -> Event[NodeLivenessChanged]:
        data = NodeLivenessChanged(
            node=node, liveness=Liveness.STALE, previous=Liveness.FRESH, last_report_at=NOW, changed_at=NOW
        )
        return event_of(data, source="test", time=NOW)

    first, second = changed("a"), changed("b")
    async with given.process() as bus:
        positions = [await bus.publish(event) for event in (first, second, first)]
    assert positions == [1, 2, 1]


async def test_an_unreadable_broadcast_is_skipped_and_the_next_is_delivered(
    nats_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    caplog.set_level(logging.WARNING)
    async with connect_bus(nats_url, name="test") as bus, bus.subscribe(LeaseRenewed, listener, partition=3):
        good = renewed(3)
        await bus.client.publish(good.subject, b"?", headers={"ce-type": "io.slackwater.lease.renewed.v1"})
        await bus.client.publish(good.subject, b"")
        message = encode(renewed(4))
        await bus.client.publish(good.subject, message.body, headers=dict(message.headers))
        await told_until(bus, good, lambda: bool(listener.heard))
    assert set(listener.heard) == {(3, 1)}


async def test_subscribers_continue_after_a_broker_restart(killable: Server) -> None:
    listener = Listener()
    async with killable.connect(name="test") as bus, bus.subscribe(LeaseRenewed, listener, partition=3):
        await told_until(bus, renewed(3), lambda: bool(listener.heard))
        await killable.kill()
        await until(lambda: not bus.client.is_connected)
        with pytest.raises(Unavailable):
            await bus.broadcast(renewed(3, 2))
        await killable.start()
        await until(lambda: bus.client.is_connected)
        await told_until(bus, renewed(3, 3), lambda: (3, 3) in listener.heard)
    assert (3, 2) not in listener.heard, "a broadcast that failed is not repeated later"
