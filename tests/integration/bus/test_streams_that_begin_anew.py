"""A stream that counts from 1 again (after a restart, or wiped) is read from there, and nothing is mistaken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from jetstream_lab import Server
from tests.support.reports import report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "ingestion-usage-reported"


class Noted:
    """What was handled, and how often it had been delivered by then."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    async def __call__(self, batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        self.seen += [(one.event.data.sequence, one.deliveries) for one in batch]
        return [Done()] * len(batch)

    async def up_to(self, number: int) -> None:
        async with asyncio.timeout(30):
            while number not in {one for one, _ in self.seen}:
                await asyncio.sleep(0.02)


async def told(bus: NatsBus, first: int, last: int) -> None:
    now = datetime.now(UTC)
    for number in range(first, last + 1):
        event = event_of(report("node", number, now), source="node", time=now)
        async with asyncio.timeout(30):
            while True:
                try:
                    await bus.publish(event)
                    break
                except Unavailable:
                    await asyncio.sleep(0.02)


async def test_what_a_stream_in_memory_holds_after_a_restart_is_not_taken_for_redeliveries(
    killable: Server,
) -> None:
    noted = Noted()
    async with killable.connect(name="test") as bus, bus.consume(UsageReported, CONSUMER, noted, batch=16):
        await told(bus, 1, 40)
        await noted.up_to(40)
        await killable.kill()
        await killable.start()
        await told(bus, 41, 50)
        await noted.up_to(50)
    assert [one for one in noted.seen if one[0] > 40] == [(number, 1) for number in range(41, 51)]


async def test_a_reader_with_an_old_position_reads_a_wiped_stream_from_its_start(killable: Server) -> None:
    """A snapshot outlives the broker's store: what it names is far beyond the new stream's end."""
    handled: list[str] = []

    async def take(batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        handled.extend(received.event.data.decision_id for received in batch)
        return [Done()] * len(batch)

    async with killable.connect(name="test") as bus:
        numbers = range(700)
        await asyncio.gather(*(bus.publish(event_of(effect(number), source="test", time=NOW)) for number in numbers))
        async with bus.replay(EffectMeasured, take, after_sequence=1_000_000), asyncio.timeout(30):
            while len(handled) < len(numbers):
                await asyncio.sleep(0.05)
    assert sorted(handled) == sorted(f"d{number}" for number in numbers)


def effect(number: int) -> EffectMeasured:
    return EffectMeasured(
        decision_id=f"d{number}",
        node="n",
        metric="prod_cpu_pressure",
        before=0.5,
        after=0.1,
        waterline=0.2,
        relieved=True,
        actuated_at=NOW,
        measured_at=NOW,
        seconds_to_actuation=0.1,
        seconds_to_measurement=1,
    )
