"""A consumer that is too far behind goes on with the newest of each subject, and nothing new escapes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from tests.support.nats_server import purge_broker
from tests.support.reports import report

from slackwater.bus.admin.streams import Topology, load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.usage_reported import UsageReported

CONSUMER = "ingestion-usage-reported"
NODES = [f"node-{number}" for number in range(8)]
BATCH = 16


def hasty(jump_seconds: float = 0.5) -> Topology:
    """So far behind is too far for it, and no pause between batches."""
    topology = load()
    spec = topology.consumers[CONSUMER].model_copy(update={"jump_seconds": jump_seconds, "gather_seconds": 0})
    return topology.model_copy(update={"consumers": {**topology.consumers, CONSUMER: spec}})


class Slow:
    """Takes its time for each batch, and notes what it got."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    async def __call__(self, batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        await asyncio.sleep(0.005 * len(batch))
        self.seen += [(one.event.data.node, one.event.data.sequence, one.deliveries) for one in batch]
        return [Done()] * len(batch)

    def newest(self) -> dict[str, int]:
        return {node: max(number for name, number, _ in self.seen if name == node) for node, _, _ in self.seen}


async def told(bus: NatsBus, first: int, last: int) -> None:
    now = datetime.now(UTC)
    events = [event_of(report(node, number, now), source=node, time=now)
              for number in range(first, last + 1) for node in NODES]  # fmt: skip
    await asyncio.gather(*(bus.publish(event) for event in events))


async def caught_up(slow: Slow, number: int) -> None:
    while slow.newest() != dict.fromkeys(NODES, number):
        await asyncio.sleep(0.01)


@pytest.fixture
def slow() -> Slow:
    return Slow()


async def test_a_reader_that_lags_too_far_continues_at_the_newest_message(nats_url: str, slow: Slow) -> None:
    async with connect_bus(nats_url, name="test", topology=hasty(), declares=False) as bus:
        await purge_broker(bus)
        await bus.declare()
        await told(bus, 1, 59)  # two and a half seconds of its work
        async with bus.consume(UsageReported, CONSUMER, slow, batch=BATCH):
            await caught_up(slow, 59)
            skipped = bus.stats()[CONSUMER].skipped
            assert skipped > 0
            assert len(slow.seen) < 59 * len(NODES)
            await told(bus, 60, 61)
            await caught_up(slow, 61)
        numbers = [number for node, number, _ in slow.seen if node == NODES[0]]
        assert numbers == sorted(numbers)
        again = [one for one in slow.seen if [o[:2] for o in slow.seen].count(one[:2]) > 1]
        assert all(any(other[2] > 1 for other in again if other[:2] == one[:2]) for one in again)


async def test_after_a_jump_it_is_declared_as_before_and_goes_on(nats_url: str, slow: Slow) -> None:
    async with connect_bus(nats_url, name="test", topology=hasty(), declares=False) as bus:
        await purge_broker(bus)
        await bus.declare()
        await told(bus, 1, 59)
        async with bus.consume(UsageReported, CONSUMER, slow, batch=BATCH):
            await caught_up(slow, 59)
        assert bus.stats()[CONSUMER].skipped > 0
        await bus.declare()
        before = len(slow.seen)
        async with bus.consume(UsageReported, CONSUMER, slow, batch=BATCH):
            await told(bus, 60, 60)
            await caught_up(slow, 60)
        assert len(slow.seen) <= before + 2 * len(NODES)


async def test_a_reader_that_keeps_up_skips_nothing(nats_url: str, slow: Slow) -> None:
    async with connect_bus(nats_url, name="test", topology=hasty(600.0), declares=False) as bus:
        await purge_broker(bus)
        await bus.declare()
        async with bus.consume(UsageReported, CONSUMER, slow, batch=BATCH):
            for number in range(1, 20):
                await told(bus, number, number)
                await caught_up(slow, number)
        assert bus.stats()[CONSUMER].skipped == 0
        assert len(slow.seen) == 19 * len(NODES)
