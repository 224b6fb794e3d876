"""The real bus on the in-memory server, over a link that loses, delays, repeats and reorders."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import pytest
from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.client import connect_memory_bus
from tests.support.link import SoonLink

from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.model.errors import Unavailable

T = TypeVar("T")
NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "console-effect-measured"
DELAY_SECONDS = 0.001

pytestmark = pytest.mark.looptime


class FaultyLink(SoonLink):
    """Does to each message what the test says: `back` and `out` return the delays of its copies, none if it is lost."""

    def __init__(self) -> None:
        super().__init__(DELAY_SECONDS)
        self.out: Callable[[], Sequence[float]] = lambda: (DELAY_SECONDS,)
        self.back: Callable[[], Sequence[float]] = lambda: (DELAY_SECONDS,)
        self.closers: list[Callable[[], None]] = []

    async def call(self, operation: Callable[[], T]) -> T:
        await asyncio.sleep(2 * DELAY_SECONDS)
        if not self.out() or not self.back():
            raise Unavailable("no answer")
        return operation()

    def send(self, operation: Callable[[], None]) -> None:
        for delay in self.out():
            asyncio.get_running_loop().call_later(delay, operation)

    def deliver(self, receive: Callable[[], None]) -> None:
        for delay in self.back():
            asyncio.get_running_loop().call_later(delay, receive)

    def on_close(self, closed: Callable[[], None]) -> None:
        self.closers.append(closed)

    def cut(self) -> None:
        self.out = self.back = lambda: ()

    def heal(self) -> None:
        self.out = self.back = lambda: (DELAY_SECONDS,)


def effect(decision: str) -> Event[EffectMeasured]:
    data = EffectMeasured(
        decision_id=decision,
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
    return event_of(data, source="test", time=NOW)


class Seen:
    def __init__(self) -> None:
        self.deliveries: list[tuple[str, int]] = []

    async def __call__(self, batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        self.deliveries += [(received.event.data.decision_id, received.deliveries) for received in batch]
        return [Done()] * len(batch)

    async def count(self, count: int) -> None:
        async with asyncio.timeout(300):
            while len(self.deliveries) < count:
                await asyncio.sleep(0.01)


async def publish(bus: object, event: Event[EffectMeasured]) -> int:
    """As an outbox does; returns the tries."""
    tries = 1
    async with asyncio.timeout(300):
        while True:
            try:
                await bus.publish(event)  # type: ignore[attr-defined]  # NatsBus
            except Unavailable:
                tries += 1
                await asyncio.sleep(0.1)
            else:
                return tries


async def test_a_publish_whose_answer_is_lost_is_repeated_and_stored_once() -> None:
    broker, link = JetStreamBroker(), FaultyLink()
    async with connect_memory_bus(broker, name="test", link=link) as bus:
        link.back = lambda: ()
        publishing = asyncio.create_task(publish(bus, effect("d")))
        await asyncio.sleep(1)
        assert broker.ends("DECISIONS") == (1, 1), "it was stored, and the publisher cannot know"
        link.heal()
        assert await publishing > 1
    assert broker.ends("DECISIONS") == (1, 1)


async def test_a_publish_that_is_lost_is_repeated() -> None:
    broker, link = JetStreamBroker(), FaultyLink()
    async with connect_memory_bus(broker, name="test", link=link) as bus:
        link.out = lambda: ()
        publishing = asyncio.create_task(publish(bus, effect("d")))
        await asyncio.sleep(1)
        assert broker.ends("DECISIONS") == (1, 0)
        link.heal()
        assert await publishing > 1
    assert broker.ends("DECISIONS") == (1, 1)


async def test_repeated_and_reordered_messages_of_a_connection_arrive_once_and_in_order() -> None:
    broker, link, seen = JetStreamBroker(), FaultyLink(), Seen()
    delays = [(0.02, 0.001), (0.001,), (0.03,), (0.002, 0.002, 0.05)]
    turn = itertools.count()
    async with connect_memory_bus(broker, name="test", link=link) as bus, bus.consume(EffectMeasured, CONSUMER, seen):
        link.out = link.back = lambda: delays[next(turn) % 4]
        await asyncio.gather(*(bus.publish(effect(f"d{number}")) for number in range(40)))
        await seen.count(40)
        assert bus.stats()[CONSUMER].delivered == 40
    assert [decision for decision, _ in seen.deliveries] == [f"d{number}" for number in range(40)]
    assert {count for _, count in seen.deliveries} == {1}


async def test_a_lost_delivery_comes_again() -> None:
    broker, link, seen = JetStreamBroker(), FaultyLink(), Seen()
    async with connect_memory_bus(broker, name="test", link=link) as bus, bus.consume(EffectMeasured, CONSUMER, seen):
        await asyncio.sleep(0.1)
        link.back = lambda: ()
        async with connect_memory_bus(broker, name="other", link=SoonLink(DELAY_SECONDS)) as other:
            await other.publish(effect("d"))
        await asyncio.sleep(0.1)
        link.heal()
        await seen.count(1)
    assert seen.deliveries == [("d", 2)]


async def test_a_silent_cut_is_noticed_and_readers_continue_after_it() -> None:
    broker, link, seen = JetStreamBroker(), FaultyLink(), Seen()
    async with connect_memory_bus(broker, name="test", link=link) as bus, bus.consume(EffectMeasured, CONSUMER, seen):
        await asyncio.sleep(0.1)
        link.cut()
        await asyncio.sleep(60)
        assert not await bus.connected()
        async with connect_memory_bus(broker, name="other", link=SoonLink(DELAY_SECONDS)) as other:
            await other.publish(effect("d"))
        link.heal()
        await seen.count(1)
        assert await bus.connected()


async def test_a_crashed_process_leaves_its_messages_to_another_after_ack_wait() -> None:
    broker, link, seen = JetStreamBroker(), FaultyLink(), Seen()
    handling = asyncio.Event()

    async def never(batch: Sequence[Received[EffectMeasured]]) -> Sequence[Settlement]:
        handling.set()
        await asyncio.Event().wait()
        return []

    async with (
        connect_memory_bus(broker, name="crashes", link=link) as bus,
        bus.consume(EffectMeasured, CONSUMER, never),
    ):
        await bus.publish(effect("d"))
        await handling.wait()
        link.cut()
        for close in link.closers:
            close()
        began = asyncio.get_running_loop().time()
        async with connect_memory_bus(broker, name="other") as other, other.consume(EffectMeasured, CONSUMER, seen):
            await seen.count(1)
        passed = asyncio.get_running_loop().time() - began
    assert seen.deliveries == [("d", 2)]
    assert passed <= broker.topology.consumers[CONSUMER].ack_wait_seconds + 0.1


async def test_a_lost_consumer_is_declared_again_and_reads_everything_again() -> None:
    broker, seen = JetStreamBroker(), Seen()
    async with connect_memory_bus(broker, name="test") as bus, bus.consume(EffectMeasured, CONSUMER, seen):
        await bus.publish(effect("d"))
        await seen.count(1)
        broker.lose_consumer(CONSUMER)
        await seen.count(2)
    assert seen.deliveries == [("d", 1), ("d", 1)]


async def test_a_consumer_whose_state_is_behind_delivers_again() -> None:
    broker, seen = JetStreamBroker(), Seen()
    async with connect_memory_bus(broker, name="test") as bus, bus.consume(EffectMeasured, CONSUMER, seen):
        await bus.publish(effect("before"))
        await seen.count(1)
        await asyncio.sleep(11)  # until the next sync
        await bus.publish(effect("after"))
        await seen.count(2)
        broker.rewind_consumer(CONSUMER)
        await seen.count(3)
    assert [decision for decision, _ in seen.deliveries] == ["before", "after", "after"]


async def test_two_runs_are_the_same() -> None:
    async def run() -> list[tuple[str, int]]:
        broker, link, seen = JetStreamBroker(), FaultyLink(), Seen()
        turn = itertools.count()

        def delays() -> Sequence[float]:
            number = next(turn)
            return () if number % 17 == 0 else (DELAY_SECONDS + number * 1e-7,)

        async with (
            connect_memory_bus(broker, name="test", link=link) as bus,
            bus.consume(EffectMeasured, CONSUMER, seen),
        ):
            link.out = link.back = delays
            for number in range(20):  # asyncio breaks no tie the same way twice: one after the other
                await publish(bus, effect(f"d{number}"))
            link.heal()
            while {decision for decision, _ in seen.deliveries} != {f"d{number}" for number in range(20)}:
                await asyncio.sleep(0.1)
        return seen.deliveries

    assert await run() == await run()
