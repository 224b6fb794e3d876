"""The bus as services see it.

Settlement is explicit: a handler returns one verdict per message and the bus carries it out.
Handlers get batches, because the usage path is affordable only in batches; slackwater.bus.consume.handlers
builds them from functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from slackwater.bus.read.stream_reader import StreamReader
from slackwater.events.envelope import BroadcastPayload, Event, Payload
from slackwater.events.serialized import Written
from slackwater.model.records import record

P = TypeVar("P", bound=Payload)
T = TypeVar("T", bound=BroadcastPayload)


@record(frozen=True, slots=True)
class Done:
    """The message is handled, or was handled before: acknowledge."""


@record(frozen=True, slots=True)
class Retry:
    """Redeliver after `delay_seconds` or, if None, after a growing pause. Counts towards the
    consumer's `max_deliver`, unless `away`: an unavailable dependency says nothing about the
    message. With `outage`, a dependency does not answer, so that the message may as well be kept in
    hand and handled again.
    """

    reason: str
    delay_seconds: float | None = None
    away: bool = False
    outage: bool = False


@record(frozen=True, slots=True)
class Reject:
    """The message can never be handled: dead-letter it with a stable `reason`, then terminate."""

    reason: str
    detail: str = ""


Settlement = Done | Retry | Reject


@record(frozen=True, slots=True)
class Received(Generic[P]):
    """One delivered event. `deliveries` counts from 1; `stream_sequence` is the position in its stream (0 = unknown);
    `subject_key` is the key as the subject carries it: trust it over the body when they differ. `stored_at_seconds` is
    the broker's time at which it was stored, in seconds since 1970 (0 = unknown)."""

    event: Event[P]
    stream_sequence: int
    deliveries: int
    subject_key: str
    stored_at_seconds: float = 0.0


Holds = Callable[[int], bool]
"""Returns whether this replica owns a partition now."""
Worth = Callable[[str], bool]
"""Returns whether a message needs to be read, given the key in its subject."""


@record(frozen=True, slots=True)
class StreamHead:
    """The position of the last event of some types. `epoch` identifies the stream's incarnation:
    positions of another one are not comparable. `sequence` is 0 where there is none.
    """

    epoch: str
    sequence: int


BatchHandler = Callable[[Sequence[Received[P]]], Awaitable[Sequence[Settlement]]]


class Consumption(Protocol):
    """An open consumer. For a partitioned one, these methods select the partitions it reads."""

    async def acquire(self, partitions: Collection[int]) -> None:
        """Start reading these partitions. Raises Unavailable."""
        ...

    async def release(self, partitions: Collection[int]) -> None:
        """Stop reading these partitions: messages in hand are settled on return, buffered ones go
        back at once.
        """
        ...

    def drop(self, partitions: Collection[int]) -> None:
        """Stop at once because another replica owns these partitions. Messages in hand are
        redelivered to it.
        """
        ...


class Bus(Protocol):
    """All bus operations of a service. Raises Unavailable when the broker does not answer in
    time.
    """

    async def publish(self, event: Event[Any]) -> int:
        """Store one event in its stream and wait for the acknowledgement; returns its position.
        Idempotent by event id.
        """
        ...

    async def carry(self, event: Written) -> None:
        """Publish an event from an outbox; otherwise as `publish`."""
        ...

    def consume(
        self,
        payload: type[P],
        consumer: str,
        handler: BatchHandler[P],
        *,
        batch: int = 100,
        holds: Holds | None = None,
        worth: Worth | None = None,
    ) -> AbstractAsyncContextManager[Consumption]:
        """Run a durable consumer of `contracts/streams.yaml` while the context is open.

        `worth`: called for each message before it is decoded; a message it declines is acknowledged unread. Reports are
        joined with their rosters; one whose roster does not come is left out and counted.

        A partitioned consumer begins with all partitions, or, with `holds`, with none: `take` and
        `give` select them, and only messages of partitions for which `holds` is true are handled
        and acknowledged.

        Undecodable messages never reach the handler: they are dead-lettered. If the handler raises,
        each message of the batch is handled again at once, alone; one that raises again is
        dead-lettered as `handler_failed`. Unavailable and Conflict are not failures of a message:
        it is redelivered. Leaving the context waits until the batch in hand is settled.
        """
        ...

    def watch(
        self,
        payload: type[P],
        handler: Callable[[Event[P]], Awaitable[None]],
        *,
        key: str | None = None,
        caught_up: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Delivers the last value of every subject of the type (or below `key`), then every change;
        survives reconnects. `caught_up` is called whenever all that is stored has been delivered.

        Without acknowledgement and redelivery: for level-triggered state, where only the newest
        value counts.
        """
        ...

    async def broadcast(self, event: Event[Any]) -> None:
        """Broadcast an event to current subscribers. It is neither stored nor confirmed, and may be
        lost.
        """
        ...

    def subscribe(
        self, payload: type[T], handler: Callable[[Event[T]], Awaitable[None]], *, partition: int
    ) -> AbstractAsyncContextManager[None]:
        """Delivers the broadcasts of a partition from now on; survives reconnects, but misses what
        is sent meanwhile.

        Nothing is redelivered, so use it for events that are sent periodically. Undecodable
        messages are skipped.
        """
        ...

    def replay(
        self,
        payload: type[P],
        handler: BatchHandler[P],
        *,
        after_sequence: int,
        batch: int = 500,
        partition: int | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Delivers all events of a type (in one partition) after a stream position, in order, then
        live; the caller keeps the position. A message at which the handler raises, also alone, is
        dead-lettered, and the replay continues.
        """
        ...

    def follow(
        self,
        payloads: Sequence[type[Payload]],
        *,
        after: Mapping[str, int] | None = None,
        since: datetime | None = None,
        keys: Sequence[str] = (),
        bodies: bool = True,
    ) -> AbstractAsyncContextManager[StreamReader]:
        """Read events of several types without acknowledging, from now or from the end of an
        earlier read.

        `after` has the last position seen per stream; a stream not in it begins at `since`, or now.
        Messages that retention removed are reported as Missed. `keys` restricts to subjects whose
        key equals or begins with one of them, token by token. Without `bodies` the broker sends
        attributes only. Raises Unavailable on entering.
        """
        ...

    async def mark(self, payloads: Sequence[type[Payload]]) -> StreamHead:
        """Returns the current end of what `follow` shows of these types, all kept by one stream.
        Raises Unavailable.
        """
        ...

    async def latest(self, payload: type[P], node: str) -> Event[P] | None:
        """Returns the last event of a type about a node in its stream, for a reader that skipped
        it. None if there is none, it cannot be decoded, or a blocked agent sent it. Raises
        Unavailable.
        """
        ...

    async def settled_up_to(self, consumer: str) -> int:
        """Returns the stream position up to which a durable consumer has settled everything, across
        all processes.
        """
        ...

    async def connected(self) -> bool:
        """Returns whether a round trip to the broker succeeds now (used by readiness, never by
        liveness).
        """
        ...
