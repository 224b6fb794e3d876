"""An in-memory broker: streams, durable consumers and their unsettled messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from tests.support.jetstream.api_errors import JetStreamError
from tests.support.jetstream.stream import MemoryStream

from slackwater.bus.admin.broker_admin import ConsumerState
from slackwater.bus.admin.stream_setup import stream_config
from slackwater.bus.admin.streams import Topology, durable_name, durable_names, load
from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.read.broadcast import BroadcastSubscription
from slackwater.events.envelope import Payload, partition_in
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import PARTITIONS
from slackwater.model.time import Clock, SystemClock

P = TypeVar("P", bound=Payload)


class StreamRefusal(Unavailable):
    """A stream refuses a message; the bus reports the broker's answer."""

    def __init__(self, refused: JetStreamError, message: str) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(slots=True)
class _Unsettled:
    deliveries: int
    due: float


@dataclass(slots=True)
class _Consumer:
    """One durable consumer. `partition` None reads all shards."""

    prefix: str
    position: int
    partition: int | None = None
    unsettled: dict[int, _Unsettled] = field(default_factory=dict)


class MemoryBroker:
    """Streams and the positions of durable consumers. `away = True` makes every publish and broadcast raise
    Unavailable; `refuses_to_store` only those that are stored."""

    def __init__(self, *, clock: Clock | None = None, topology: Topology | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.topology = topology or load()
        self._is_away = False
        self.refuses_to_store = False
        self.epoch = "first"
        self.dead_letters: list[DeadLetter] = []
        self.ears: list[tuple[str, BroadcastSubscription[Any]]] = []
        """Subscribers by subject."""
        self._streams = {
            name: MemoryStream(name, stream_config(name, spec).as_dict(), self.clock.now())
            for name, spec in self.topology.streams.items()
        }
        self._consumers: dict[str, _Consumer] = {}
        for name, spec in self.topology.consumers.items():
            self._consumers[name] = _Consumer(f"sw.v1.{spec.event}.", 0)
            for partition in range(PARTITIONS) if spec.partitioned else ():
                durable = durable_name(name, partition)
                self._consumers[durable] = _Consumer(f"sw.v1.{spec.event}.", 0, partition)
        self._listeners: dict[asyncio.Event, None] = {}

    @property
    def away(self) -> bool:
        """Whether the broker cannot be reached."""
        return self._is_away

    @away.setter
    def away(self, is_away: bool) -> None:
        self._is_away = is_away

    def store(self, stream: str, message: Message) -> int:
        """Append a message, well-formed or not. Returns its position, or that of the same message stored before."""
        if self.away or self.refuses_to_store:
            raise Unavailable(f"the bus is unavailable: {message.subject} was not published")
        kept = self._streams[stream]
        try:
            position, is_known = kept.store(message, self.clock.monotonic(), self.clock.now())
        except JetStreamError as refused:
            raise StreamRefusal(refused, f"stream {stream} refused {message.subject}: {refused}") from refused
        if not is_known:
            self.stored(kept, position, message)
        return position

    def stored(self, stream: MemoryStream, sequence: int, message: Message) -> None:
        """A stream has stored a message that it did not have."""
        self.wake()

    async def remove(self, stream: str, sequence: int) -> None:
        """Remove one message, if it is still there."""
        if sequence in self._streams[stream].messages:
            self._streams[stream].remove(sequence)

    async def broadcast(self, message: Message) -> None:
        """Deliver to the current subscribers, without storing."""
        if self.away:
            raise Unavailable(f"the bus is unavailable: {message.subject} was not broadcast")
        for subject, ear in tuple(self.ears):
            if message.subject.startswith(subject.removesuffix("*")):
                await ear.deliver(message)

    async def bury(self, letter: DeadLetter, message: Message | None = None) -> None:
        """Store a dead letter, in the form of `message` if given. Raises Unavailable."""
        self.store("DLQ", message or letter.message())
        self.dead_letters.append(letter)

    def wake(self) -> None:
        for listener in self._listeners:
            listener.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[asyncio.Event]:
        event = asyncio.Event()
        self._listeners[event] = None
        try:
            yield event
        finally:
            self._listeners.pop(event, None)

    def after(self, stream: str, prefix: str, sequence: int, partition: int | None = None) -> list[tuple[int, Message]]:
        """Messages of a type (in one partition) after a position, in order."""
        kept = self._streams[stream]
        kept.expire(self.clock.monotonic())
        return [
            (at, stored.message)
            for at, stored in kept.messages.items()
            if at > sequence
            and stored.message.subject.startswith(prefix)
            and (partition is None or partition_in(stored.message.subject) == partition)
        ]

    def ends(self, stream: str) -> tuple[int, int]:
        """First and last position of a stream, as JetStream reports them."""
        kept = self._streams[stream]
        kept.expire(self.clock.monotonic())
        return kept.first_sequence, kept.last_sequence

    def position_at(self, stream: str, moment: datetime) -> int:
        """The last position stored before a time."""
        earlier = [at for at, stored in self._streams[stream].messages.items() if stored.at < moment]
        return max([*earlier, self.ends(stream)[0] - 1])

    def begin_anew(self, stream: str) -> None:
        """Replace the stream by an empty one of the same name, as after the loss of a broker's store."""
        self._streams[stream] = MemoryStream(stream, self._streams[stream].config, self.clock.now())
        self.epoch = f"after {self.epoch}"

    def truncate(self, stream: str, before: int) -> None:
        """Remove every message before a position, as retention does."""
        self._streams[stream].purge(before)

    def fetch(self, name: str, batch: int, partition: int | None = None) -> list[MemoryDelivery]:
        """The messages due for a durable consumer (or one partition of it): redeliveries first, then new ones."""
        stream, spec, now = self.topology.stream_of(name), self.topology.consumers[name], self.clock.monotonic()
        name = name if partition is None else durable_name(name, partition)
        consumer = self._consumers[name]
        kept = self._streams[stream]
        kept.expire(now)
        messages = kept.messages
        for sequence in [sequence for sequence in consumer.unsettled if sequence not in messages]:
            del consumer.unsettled[sequence]  # removed from the stream, as JetStream does
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
        return [
            MemoryDelivery(
                self, name, at, messages[at].message, left, spec.ack_wait_seconds, messages[at].at.timestamp()
            )
            for at in taken
        ]

    def seconds_to_next(self, name: str, partitions: Collection[int] | None = None) -> float | None:
        """Seconds until an unsettled message is due again."""
        names = [name] if partitions is None else [durable_name(name, partition) for partition in partitions]
        unsettled = [message for durable in names for message in self._consumers[durable].unsettled.values()]
        return max(0.0, min(u.due for u in unsettled) - self.clock.monotonic()) if unsettled else None

    def consumer_state(self, name: str) -> ConsumerState:
        """The state as the admin interface shows it; that of a partitioned consumer is the sum of its partitions."""
        stream = self.topology.stream_of(name)
        parts = [self._consumers[durable] for durable in durable_names(name, self.topology.consumers[name])]
        unsettled = [message for part in parts for message in part.unsettled.values()]
        pending = sum(len(self.after(stream, part.prefix, part.position, part.partition)) for part in parts)
        return ConsumerState(
            name, stream, pending, len(unsettled), sum(message.deliveries > 1 for message in unsettled)
        )

    def settled_up_to(self, name: str) -> int:
        """The position before the oldest unsettled message, or the last delivered position."""
        consumer = self._consumers[name]
        return min(consumer.unsettled, default=consumer.position + 1) - 1

    def consumed_all(self) -> None:
        """Mark all messages as handled by every consumer."""
        for name, spec in self.topology.consumers.items():
            last = self._streams[self.topology.stream_of(name)].last_sequence
            for durable in {name, *durable_names(name, spec)}:
                self._consumers[durable].position = last

    def start_new_consumers(self) -> None:
        """Set every consumer with `deliver: new` to the end of its stream, as its first declaration does."""
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
    """One delivered, unsettled message."""

    broker: MemoryBroker
    consumer: str
    stream_sequence: int
    message: Message
    pending: int
    ack_wait_seconds: float = 0.0
    stored_at_seconds: float = 0.0

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

    @property
    def is_current(self) -> bool:
        return True

    async def ack(self) -> None:
        self.broker.settle(self.consumer, self.stream_sequence)

    async def term(self) -> None:
        self.broker.settle(self.consumer, self.stream_sequence)

    async def nak(self, delay_seconds: float) -> None:
        self.broker.postpone(self.consumer, self.stream_sequence, delay_seconds)

    async def in_progress(self) -> None:
        self.broker.postpone(self.consumer, self.stream_sequence, self.ack_wait_seconds)
