"""A process connected to the in-memory broker (testing/broker), in virtual time if the clock is virtual.

It passes the same tests as the real bus (tests/integration/bus).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from tests.support.broker import MemoryBroker, MemoryDelivery
from tests.support.stream_reader import MemoryStreamReader

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.codec.decoder import decode_message
from slackwater.bus.codec.failures import node_of
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.agent_rates import AgentRates, agent_gates
from slackwater.bus.consume.dead_letter_store import DeadLetterStore
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.partition_ownership import Unsettled
from slackwater.bus.consume.partitions import WHOLE
from slackwater.bus.consume.settlement import Settler
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import BatchHandler, Consumption, Holds, StreamHead, Worth
from slackwater.bus.read.broadcast import BroadcastSubscription, T
from slackwater.bus.read.replay import Replayer
from slackwater.bus.read.stream_head import latest_in
from slackwater.bus.read.stream_reader import StreamReader
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.bus.read.watch import WatchDelivery
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.bus.rosters.roster_publisher import RosterPublisher
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, Payload, broadcast_subjects, subject_token
from slackwater.events.pods_rostered import PodsRostered, subject_in
from slackwater.events.serialized import Written, written
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.time import Clock
from slackwater.telemetry.metrics import process_meters

P = TypeVar("P", bound=Payload)
_BLOCKS = f"sw.v1.{AgentBlockChanged.TYPE}."


class MemoryConsumption:
    """slackwater.bus.port.Consumption of a partitioned consumer."""

    def __init__(self, broker: MemoryBroker, in_hand: Unsettled) -> None:
        self._broker = broker
        self._in_hand = in_hand
        self.partitions: set[int] = set()

    async def acquire(self, partitions: Collection[int]) -> None:
        self.partitions.update(partitions)
        self._broker.wake()

    async def release(self, partitions: Collection[int]) -> None:
        self.partitions.difference_update(partitions)
        await self._in_hand.without(partitions)

    def drop(self, partitions: Collection[int]) -> None:
        self.partitions.difference_update(partitions)


class MemoryBus:
    """See slackwater.bus.port.Bus."""

    def __init__(self, broker: MemoryBroker | None = None, *, clock: Clock | None = None, name: str = "memory") -> None:
        self.broker = broker or MemoryBroker(clock=clock)
        self.published: list[Event[Any]] = []
        self._name = name
        self._counters: dict[str, Counters] = {}
        self._office = DeadLetterStore(self.broker.bury, self.broker.clock, BusMetrics(process_meters()))
        self.unread = UnreadSubjects(process_meters())
        self._rosters = KnownRosters(self._read_roster, BusMetrics(process_meters()), self.broker.clock)
        self._roster_publisher = RosterPublisher(self._store, self.broker.clock)
        self._epoch = self.broker.epoch
        self._busy = 0
        self._blocks = Blocks()
        self._blocks_read = (self.broker.epoch, 0)

    @property
    def dead_letters(self) -> Sequence[DeadLetter]:
        """The dead letters, in order."""
        return tuple(self.broker.dead_letters)

    @property
    def blocks(self) -> Blocks:
        """The blocked agents."""
        stands_at = self.broker.epoch, self.broker.ends(AgentBlockChanged.STREAM)[1]
        if stands_at == self._blocks_read:
            return self._blocks
        self._blocks_read = stands_at
        for _, message in self.broker.after(AgentBlockChanged.STREAM, _BLOCKS, 0):
            with suppress(Undecodable):
                event = decode_message(message.subject, AgentBlockChanged, message.headers, message.body)
                self._blocks.note(event.data)
        return self._blocks

    async def publish(self, event: Event[Any]) -> int:
        if self._epoch != self.broker.epoch:
            self._epoch = self.broker.epoch
            self._roster_publisher.invalidate()
        position = await self._store(event, await self._roster_publisher.body(event))
        self.published.append(event)
        return position

    async def _store(self, event: Event[Any], body: str | None = None) -> int:
        return self.broker.store(event.data.STREAM, encode(written(event, body)))

    async def carry(self, event: Written) -> None:
        await self.publish(event.event())

    @asynccontextmanager
    async def consume(
        self,
        payload: type[P],
        consumer: str,
        handler: BatchHandler[P],
        *,
        batch: int = 100,
        holds: Holds | None = None,
        worth: Worth | None = None,
    ) -> AsyncIterator[Consumption]:
        spec = self.broker.topology.consumers.get(consumer)
        if spec is None or spec.event != payload.TYPE:
            raise Misconfigured(f"consumer {consumer!r} for {payload.TYPE} is not in contracts/streams.yaml")
        counters = self._counters.setdefault(consumer, Counters())
        metrics, keeps_last = BusMetrics(process_meters()), self.broker.topology.keeps_last(payload.STREAM)
        weight = self._rosters.weight
        gates = agent_gates(payload, consumer, lambda: self.blocks, counters, metrics, weight, keeps_last=keeps_last)
        settler = Settler(
            payload, consumer, spec, handler, self._office.bury, counters, worth=worth, gates=gates,
            rosters=self._rosters,
            remove=partial(self.broker.remove, payload.STREAM) if spec.removes_unread else None,
            sleep=self.broker.clock.sleep,
        )  # fmt: skip
        if spec.partitioned:
            async with self._consume_partitions(consumer, settler, batch, holds) as consumption:
                yield consumption
            return

        async def work() -> float | None:
            while deliveries := self.broker.fetch(consumer, batch):
                await settler.settle(deliveries)
            return self.broker.seconds_to_next(consumer)

        async with self._running(work):
            yield WHOLE

    @asynccontextmanager
    async def _consume_partitions(
        self, consumer: str, settler: Settler[P], batch: int, holds: Holds | None
    ) -> AsyncIterator[Consumption]:
        in_hand = Unsettled(settler.settle, holds or (lambda _: True))
        consumption = MemoryConsumption(self.broker, in_hand)
        if holds is None:
            await consumption.acquire(ALL_PARTITIONS)

        async def work() -> float | None:
            def due() -> list[MemoryDelivery]:
                found = [one for p in sorted(consumption.partitions) for one in self.broker.fetch(consumer, batch, p)]
                return sorted(found, key=lambda delivery: delivery.stream_sequence)

            while deliveries := due():
                for start in range(0, len(deliveries), batch):
                    await in_hand.settle(deliveries[start : start + batch])
            return self.broker.seconds_to_next(consumer, consumption.partitions)

        async with self._running(work):
            yield consumption

    @asynccontextmanager
    async def watch(
        self,
        payload: type[P],
        handler: Callable[[Event[P]], Awaitable[None]],
        *,
        key: str | None = None,
        caught_up: Callable[[], None] | None = None,
    ) -> AsyncIterator[None]:
        wanted = None if key is None else [subject_token(part) for part in key.split("/")]
        position = 0
        keeps_last = self.broker.topology.keeps_last(payload.STREAM)
        rates = AgentRates(payload, payload.TYPE, BusMetrics(process_meters()), self._rosters.weight)
        delivery = WatchDelivery(
            payload, handler, lambda: self.blocks, self.unread, rates, self._rosters, keeps_last=keeps_last
        )

        async def work() -> float | None:
            nonlocal position
            messages = self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", position)
            last = {message.subject: at for at, message in messages} if position == 0 else None
            wanted_now = list[Message]()
            for at, message in messages:
                position = max(position, at)
                tokens = message.subject.split(".")[5:]
                superseded = last is not None and last[message.subject] != at
                if superseded or (wanted is not None and tokens[: len(wanted)] != wanted):
                    continue
                wanted_now.append(message)
            await delivery.deliver(wanted_now, self.broker.clock.monotonic())
            if caught_up is not None:
                caught_up()
            return None

        async with self._running(work):
            yield

    async def broadcast(self, event: Event[Any]) -> None:
        await self.broker.broadcast(encode(event))

    @asynccontextmanager
    async def subscribe(
        self, payload: type[T], handler: Callable[[Event[T]], Awaitable[None]], *, partition: int
    ) -> AsyncIterator[None]:
        local = BroadcastSubscription(payload, self.unread, {object(): handler})
        subscribed = broadcast_subjects(payload, partition), local
        self.broker.ears.append(subscribed)
        try:
            yield
        finally:
            self.broker.ears.remove(subscribed)

    @asynccontextmanager
    async def replay(
        self,
        payload: type[P],
        handler: BatchHandler[P],
        *,
        after_sequence: int,
        batch: int = 500,
        partition: int | None = None,
    ) -> AsyncIterator[None]:
        name = f"{self._name}-replay-{payload.TYPE.replace('.', '-').replace('_', '-')}"
        replayer = Replayer(payload, name, handler, self._office.bury, self._counters.setdefault(name, Counters()))
        position = after_sequence

        async def work() -> float | None:
            nonlocal position
            while messages := self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", position, partition)[:batch]:
                again = await replayer.handle([MemoryDelivery(self.broker, "", at, m, 0) for at, m in messages])
                position = messages[-1][0] if again is None else again
                if again is not None:
                    return 0.1
            return None

        async with self._running(work):
            yield

    @asynccontextmanager
    async def follow(
        self,
        payloads: Sequence[type[Payload]],
        *,
        after: Mapping[str, int] | None = None,
        since: datetime | None = None,
        keys: Sequence[str] = (),
        bodies: bool = True,
    ) -> AsyncIterator[StreamReader]:
        if self.broker.away:
            raise Unavailable("the bus is unavailable")
        async with self.broker.listening() as changed:
            yield MemoryStreamReader(self.broker, changed, payloads, after or {}, since, keys, bodies, self._rosters)

    async def mark(self, payloads: Sequence[type[Payload]]) -> StreamHead:
        if self.broker.away:
            raise Unavailable("the bus is unavailable")
        newest = [self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", 0)[-1:] for payload in payloads]
        return StreamHead(self.broker.epoch, max((last[0][0] for last in newest if last), default=0))

    async def latest(self, payload: type[P], node: str) -> Event[P] | None:
        if self.broker.away:
            raise Unavailable("the bus is unavailable")
        stored = self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", 0)
        return latest_in(payload, (one for one in stored if node_of(one[1].subject) == node), self.blocks, self.unread)

    async def _read_roster(self, node: str, slot: int) -> Event[PodsRostered] | None:
        if self.broker.away:
            raise Unavailable("the bus is unavailable")
        stored = self.broker.after(PodsRostered.STREAM, subject_in(node, slot), 0)
        return latest_in(PodsRostered, stored, self.blocks, self.unread)

    async def settled_up_to(self, consumer: str) -> int:
        return self.broker.settled_up_to(consumer)

    async def connected(self) -> bool:
        return not self.broker.away

    async def idle(self) -> None:
        """Wait until every open consumer, watch and replay has handled the messages that are due."""
        calm = 0
        while calm < 10:  # a task that was just woken counts as busy only when it runs
            calm = 0 if self._busy else calm + 1
            await asyncio.sleep(0)

    def stats(self) -> Mapping[str, Counters]:
        """Settlement counts of each consumer opened by this bus."""
        return {name: counters.snapshot() for name, counters in self._counters.items()}

    @asynccontextmanager
    async def _running(self, work: Callable[[], Awaitable[float | None]]) -> AsyncIterator[None]:
        """Repeat `work` when a message is published or due. An exception of a handler is raised at the exit."""
        leaving = asyncio.Event()
        async with self.broker.listening() as changed:
            task = asyncio.create_task(self._repeat(work, changed, leaving))
            try:
                yield
            finally:
                leaving.set()
                changed.set()
                await task

    async def _repeat(
        self, work: Callable[[], Awaitable[float | None]], changed: asyncio.Event, leaving: asyncio.Event
    ) -> None:
        while not leaving.is_set():
            changed.clear()
            self._busy += 1
            try:
                pause = await work()
            finally:
                self._busy -= 1
            waits = [asyncio.create_task(changed.wait())]
            if pause is not None:
                waits.append(asyncio.create_task(self.broker.clock.sleep(pause)))  # type: ignore[arg-type]  # a coroutine
            if not leaving.is_set():
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
