"""The bus in memory: the same promises without a server, in virtual time if the clock is virtual.

`MemoryBroker` is what survives a restart, `MemoryBus` a process connected to it. Held to the same tests as the real
bus (tests/integration/bus).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from slackwater.bus.deadletters import DeadLetter
from slackwater.bus.desk import ConsumerState
from slackwater.bus.encoding import MESSAGE_ID, Message, Undecodable, decode_on, encode
from slackwater.bus.following import Following
from slackwater.bus.owning import InHand
from slackwater.bus.partitions import WHOLE
from slackwater.bus.port import BatchHandler, Consumption, Holds, Mark
from slackwater.bus.replaying import Replayer
from slackwater.bus.settling import Settler
from slackwater.bus.stats import ConsumerStats, Counters
from slackwater.bus.streams import Topology, durable_name, durable_names, load
from slackwater.events.envelope import Event, Payload, partition_in, subject_token
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS, PARTITIONS
from slackwater.model.time import Clock, SystemClock
from slackwater.testing.looking import MemoryFollowing

P = TypeVar("P", bound=Payload)


@dataclass(slots=True)
class _Stream:
    keep_per_subject: int | None
    messages: dict[int, Message] = field(default_factory=dict)
    stored_at: dict[int, datetime] = field(default_factory=dict)
    last_sequence: int = 0
    ids: set[str] = field(default_factory=set)

    def store(self, message: Message, now: datetime) -> None:
        identity = message.headers.get(MESSAGE_ID)
        if identity is not None and identity in self.ids:
            return
        if identity is not None:
            self.ids.add(identity)
        self.last_sequence += 1
        self.messages[self.last_sequence] = message
        self.stored_at[self.last_sequence] = now
        if self.keep_per_subject is not None:
            same = [sequence for sequence, old in self.messages.items() if old.subject == message.subject]
            for sequence in same[: -self.keep_per_subject]:
                del self.messages[sequence]


@dataclass(slots=True)
class _Unsettled:
    deliveries: int
    due: float


@dataclass(slots=True)
class _Consumer:
    """One durable consumer in the broker. `partition` None reads all shards."""

    prefix: str
    position: int
    partition: int | None = None
    unsettled: dict[int, _Unsettled] = field(default_factory=dict)


class MemoryBroker:
    """Streams and the positions of durable consumers. `away = True` makes every publish raise Unavailable."""

    def __init__(self, *, clock: Clock | None = None, topology: Topology | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.topology = topology or load()
        self.away = False
        self.epoch = "first"
        self.dead_letters: list[DeadLetter] = []
        self._streams = {name: _Stream(spec.max_messages_per_subject) for name, spec in self.topology.streams.items()}
        self._consumers: dict[str, _Consumer] = {}
        for name, spec in self.topology.consumers.items():
            self._consumers[name] = _Consumer(f"sw.v1.{spec.event}.", 0)
            for partition in range(PARTITIONS) if spec.partitioned else ():
                durable = durable_name(name, partition)
                self._consumers[durable] = _Consumer(f"sw.v1.{spec.event}.", 0, partition)
        self._listeners: set[asyncio.Event] = set()

    def store(self, stream: str, message: Message) -> None:
        """Append a message as a publisher of any kind would, well-formed or not."""
        if self.away:
            raise Unavailable(f"the bus is away: {message.subject} was not published")
        self._streams[stream].store(message, self.clock.now())
        self.wake()

    async def bury(self, letter: DeadLetter) -> None:
        self.store("DLQ", letter.message())
        self.dead_letters.append(letter)

    def wake(self) -> None:
        for listener in self._listeners:
            listener.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[asyncio.Event]:
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    def after(self, stream: str, prefix: str, sequence: int, partition: int | None = None) -> list[tuple[int, Message]]:
        """Messages of a type (in one partition) behind a position, in order."""
        messages = self._streams[stream].messages
        return [
            (at, message)
            for at, message in messages.items()
            if at > sequence
            and message.subject.startswith(prefix)
            and (partition is None or partition_in(message.subject) == partition)
        ]

    def ends(self, stream: str) -> tuple[int, int]:
        """First and last position of a stream, as JetStream tells them."""
        kept = self._streams[stream]
        return min(kept.messages, default=kept.last_sequence + 1), kept.last_sequence

    def position_at(self, stream: str, moment: datetime) -> int:
        """The last position that was stored before a time."""
        earlier = [at for at, stored in self._streams[stream].stored_at.items() if stored < moment]
        return max(earlier, default=0)

    def begin_anew(self, stream: str) -> None:
        """Another stream of the same name, empty, as after a broker lost its store."""
        self._streams[stream] = _Stream(self._streams[stream].keep_per_subject)
        self.epoch = f"after {self.epoch}"

    def forget(self, stream: str, before: int) -> None:
        """Let go of every message before a position, as age and size do."""
        kept = self._streams[stream]
        kept.messages = {at: message for at, message in kept.messages.items() if at >= before}

    def take(self, name: str, batch: int, partition: int | None = None) -> list[MemoryDelivery]:
        """What is due for a durable consumer (or one partition of it): redeliveries first, then what is new."""
        stream, spec, now = self.topology.stream_of(name), self.topology.consumers[name], self.clock.monotonic()
        name = name if partition is None else durable_name(name, partition)
        consumer = self._consumers[name]
        messages = self._streams[stream].messages
        for sequence in [sequence for sequence in consumer.unsettled if sequence not in messages]:
            del consumer.unsettled[sequence]  # the stream let go of it, as JetStream does
        due = [sequence for sequence, unsettled in sorted(consumer.unsettled.items()) if unsettled.due <= now]
        fresh = [at for at, _ in self.after(stream, consumer.prefix, consumer.position, consumer.partition)]
        taken = (due + fresh)[:batch]
        for sequence in taken:
            before = consumer.unsettled.get(sequence)
            consumer.unsettled[sequence] = _Unsettled(
                deliveries=before.deliveries + 1 if before else 1, due=now + spec.ack_wait_seconds
            )
            consumer.position = max(consumer.position, sequence)
        left = len(due) + len(fresh) - len(taken)
        ack_wait = spec.ack_wait_seconds
        return [MemoryDelivery(self, name, sequence, messages[sequence], left, ack_wait) for sequence in taken]

    def seconds_to_next(self, name: str, partitions: Collection[int] | None = None) -> float | None:
        """How long until something unsettled is due again."""
        names = [name] if partitions is None else [durable_name(name, partition) for partition in partitions]
        unsettled = [one for durable in names for one in self._consumers[durable].unsettled.values()]
        return max(0.0, min(u.due for u in unsettled) - self.clock.monotonic()) if unsettled else None

    def consumer_state(self, name: str) -> ConsumerState:
        """As the operator's desk shows it: a partitioned one as the sum of its partitions."""
        stream = self.topology.stream_of(name)
        parts = [self._consumers[durable] for durable in durable_names(name, self.topology.consumers[name])]
        unsettled = [one for part in parts for one in part.unsettled.values()]
        pending = sum(len(self.after(stream, part.prefix, part.position, part.partition)) for part in parts)
        return ConsumerState(name, stream, pending, len(unsettled), sum(one.deliveries > 1 for one in unsettled))

    def settled_up_to(self, name: str) -> int:
        """The position before the oldest that is unsettled, or the last that was taken."""
        consumer = self._consumers[name]
        return min(consumer.unsettled, default=consumer.position + 1) - 1

    def consumed_all(self) -> None:
        """As if every consumer had handled everything."""
        for name, spec in self.topology.consumers.items():
            last = self._streams[self.topology.stream_of(name)].last_sequence
            for durable in {name, *durable_names(name, spec)}:
                self._consumers[durable].position = last

    def start_new_consumers(self) -> None:
        """Put every consumer with `deliver: new` at the end of its stream, as a first declaration does."""
        for name, spec in self.topology.consumers.items():
            if spec.deliver == "new":
                last = self._streams[self.topology.stream_of(name)].last_sequence
                for durable in {name, *durable_names(name, spec)}:
                    self._consumers[durable].position = last

    def deliveries_of(self, name: str, sequence: int) -> int:
        return self._consumers[name].unsettled[sequence].deliveries

    def settle(self, name: str, sequence: int) -> None:
        self._consumers[name].unsettled.pop(sequence, None)

    def postpone(self, name: str, sequence: int, seconds: float) -> None:
        unsettled = self._consumers[name].unsettled.get(sequence)
        if unsettled is not None:
            unsettled.due = self.clock.monotonic() + seconds
            self.wake()


@dataclass(frozen=True, slots=True)
class MemoryDelivery:
    """One message in hand."""

    broker: MemoryBroker
    consumer: str
    stream_sequence: int
    message: Message
    pending: int
    ack_wait_seconds: float = 0.0

    @property
    def subject(self) -> str:
        return self.message.subject

    @property
    def headers(self) -> Mapping[str, str]:
        return self.message.headers

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def deliveries(self) -> int:
        return self.broker.deliveries_of(self.consumer, self.stream_sequence) if self.consumer else 1

    async def ack(self) -> None:
        self.broker.settle(self.consumer, self.stream_sequence)

    async def term(self) -> None:
        self.broker.settle(self.consumer, self.stream_sequence)

    async def nak(self, delay_seconds: float) -> None:
        self.broker.postpone(self.consumer, self.stream_sequence, delay_seconds)

    async def in_progress(self) -> None:
        self.broker.postpone(self.consumer, self.stream_sequence, self.ack_wait_seconds)


class MemoryConsumption:
    """slackwater.bus.port.Consumption of a partitioned consumer."""

    def __init__(self, broker: MemoryBroker, in_hand: InHand) -> None:
        self._broker = broker
        self._in_hand = in_hand
        self.partitions: set[int] = set()

    async def take(self, partitions: Collection[int]) -> None:
        self.partitions.update(partitions)
        self._broker.wake()

    async def give(self, partitions: Collection[int]) -> None:
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
        self._busy = 0

    @property
    def dead_letters(self) -> Sequence[DeadLetter]:
        """What was given up, in order."""
        return tuple(self.broker.dead_letters)

    async def publish(self, event: Event[Any]) -> None:
        self.broker.store(event.data.STREAM, encode(event))
        self.published.append(event)

    @asynccontextmanager
    async def consume(
        self,
        payload: type[P],
        consumer: str,
        handler: BatchHandler[P],
        *,
        batch: int = 100,
        holds: Holds | None = None,
    ) -> AsyncIterator[Consumption]:
        spec = self.broker.topology.consumers.get(consumer)
        if spec is None or spec.event != payload.TYPE:
            raise Misconfigured(f"consumer {consumer!r} for {payload.TYPE} is not in contracts/streams.yaml")
        counters = self._counters.setdefault(consumer, Counters())
        settler = Settler(payload, consumer, spec, handler, self.broker.bury, counters)
        if spec.partitioned:
            async with self._consume_partitions(consumer, settler, batch, holds) as consumption:
                yield consumption
            return

        async def work() -> float | None:
            while deliveries := self.broker.take(consumer, batch):
                await settler.settle(deliveries)
            return self.broker.seconds_to_next(consumer)

        async with self._running(work):
            yield WHOLE

    @asynccontextmanager
    async def _consume_partitions(
        self, consumer: str, settler: Settler[P], batch: int, holds: Holds | None
    ) -> AsyncIterator[Consumption]:
        in_hand = InHand(settler.settle, holds or (lambda _: True))
        consumption = MemoryConsumption(self.broker, in_hand)
        if holds is None:
            await consumption.take(ALL_PARTITIONS)

        async def work() -> float | None:
            def due() -> list[MemoryDelivery]:
                found = [one for p in sorted(consumption.partitions) for one in self.broker.take(consumer, batch, p)]
                return sorted(found, key=lambda delivery: delivery.stream_sequence)

            while deliveries := due():
                for start in range(0, len(deliveries), batch):
                    await in_hand.settle(deliveries[start : start + batch])
            return self.broker.seconds_to_next(consumer, consumption.partitions)

        async with self._running(work):
            yield consumption

    @asynccontextmanager
    async def watch(
        self, payload: type[P], handler: Callable[[Event[P]], Awaitable[None]], *, key: str | None = None
    ) -> AsyncIterator[None]:
        wanted = None if key is None else [subject_token(part) for part in key.split("/")]
        position = 0

        async def work() -> float | None:
            nonlocal position
            found = self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", position)
            last = {message.subject: at for at, message in found} if position == 0 else None
            for at, message in found:
                position = max(position, at)
                tokens = message.subject.split(".")[5:]
                superseded = last is not None and last[message.subject] != at
                if superseded or (wanted is not None and tokens[: len(wanted)] != wanted):
                    continue
                try:
                    event = decode_on(message.subject, payload, message.headers, message.body)
                except Undecodable:
                    continue
                await handler(event)
            return None

        async with self._running(work):
            yield

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
        replayer = Replayer(payload, name, handler, self.broker.bury, self._counters.setdefault(name, Counters()))
        position = after_sequence

        async def work() -> float | None:
            nonlocal position
            while found := self.broker.after(payload.STREAM, f"sw.v1.{payload.TYPE}.", position, partition)[:batch]:
                again = await replayer.handle([MemoryDelivery(self.broker, "", at, m, 0) for at, m in found])
                position = found[-1][0] if again is None else again
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
    ) -> AsyncIterator[Following]:
        if self.broker.away:
            raise Unavailable("the bus is away")
        async with self.broker.listening() as changed:
            yield MemoryFollowing(self.broker, changed, payloads, after or {}, since, keys, bodies)

    async def mark(self, payloads: Sequence[type[Payload]]) -> Mark:
        if self.broker.away:
            raise Unavailable("the bus is away")
        found = [self.broker.after(each.STREAM, f"sw.v1.{each.TYPE}.", 0)[-1:] for each in payloads]
        return Mark(self.broker.epoch, max((last[0][0] for last in found if last), default=0))

    async def settled_up_to(self, consumer: str) -> int:
        return self.broker.settled_up_to(consumer)

    async def connected(self) -> bool:
        return not self.broker.away

    async def idle(self) -> None:
        """Wait until every open consumer, watch and replay has handled what is due by the clock."""
        calm = 0
        while calm < 10:  # a round that was just woken counts as busy only once it runs
            calm = 0 if self._busy else calm + 1
            await asyncio.sleep(0)

    def stats(self) -> Mapping[str, ConsumerStats]:
        """What became of the messages of each consumer opened by this bus."""
        return {name: counters.snapshot() for name, counters in self._counters.items()}

    @asynccontextmanager
    async def _running(self, work: Callable[[], Awaitable[float | None]]) -> AsyncIterator[None]:
        """Repeat `work` whenever something was published or is due; a defect of a handler surfaces on leaving."""
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
