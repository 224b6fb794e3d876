"""What a service sees of the bus.

Settlement is explicit: a handler returns one verdict per message and the bus carries it out. Handlers get batches,
because the usage path is only affordable in batches; slackwater.bus.handlers makes them from functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from slackwater.bus.following import Following
from slackwater.bus.quick import Read
from slackwater.events.envelope import Event, Payload, Told
from slackwater.events.written import Written
from slackwater.model.records import record

P = TypeVar("P", bound=Payload)
T = TypeVar("T", bound=Told)


@record(frozen=True, slots=True)
class Done:
    """Handled, or already handled before: acknowledge."""


@record(frozen=True, slots=True)
class Retry:
    """Deliver again, after `delay_seconds` or, if None, after a growing pause. Counts towards the consumer's
    `max_deliver`, unless `away`: a dependency did not answer, which says nothing against the message."""

    reason: str
    delay_seconds: float | None = None
    away: bool = False


@record(frozen=True, slots=True)
class Reject:
    """Will never be handled: to the dead letters with a stable `reason`, then terminate."""

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
"""Whether this replica owns a partition now."""
Worth = Callable[[str], bool]
"""Whether a message is worth reading, by the key that its subject carries."""


@record(frozen=True, slots=True)
class Mark:
    """Where the last event of some types stands now. `epoch` names this life of the stream: positions of another one
    mean nothing here. `sequence` is 0 where there is none."""

    epoch: str
    sequence: int


BatchHandler = Callable[[Sequence[Received[P]]], Awaitable[Sequence[Settlement]]]


class Consumption(Protocol):
    """An open consumer. If it is partitioned, these say which partitions it reads."""

    async def take(self, partitions: Collection[int]) -> None:
        """Begin with these. Raises Unavailable."""
        ...

    async def give(self, partitions: Collection[int]) -> None:
        """End with these: what is in hand of them is settled on return, what was not begun goes back at once."""
        ...

    def drop(self, partitions: Collection[int]) -> None:
        """They are another's: end with them at once. What is in hand comes again, to the other."""
        ...


class Bus(Protocol):
    """Everything a service may do with the bus. Raises Unavailable when the broker does not answer in time."""

    async def publish(self, event: Event[Any]) -> int:
        """Store one event in its stream and wait for the broker's word: its position there. Idempotent by event id."""
        ...

    async def carry(self, event: Written) -> None:
        """The same with an event that comes from an outbox."""
        ...

    def consume(
        self,
        payload: type[P],
        consumer: str,
        handler: BatchHandler[P],
        *,
        batch: int = 100,
        holds: Holds | None = None,
        read: Read | None = None,
        worth: Worth | None = None,
    ) -> AbstractAsyncContextManager[Consumption]:
        """Run a durable consumer of `contracts/streams.yaml` while the context is open.

        `read`: another way to read the bodies than slackwater.bus.quick, such as slackwater.bus.columnar.
        `worth`: asked of each message before it is read; what is not worth it is acknowledged unread.

        A partitioned one begins with all partitions, or, with `holds`, with none: `take` and `give` say which, and
        only what is of a partition that `holds` says is ours is handled and acknowledged.

        Undecodable messages never reach the handler: they are dead-lettered. If the handler raises, each message of
        the batch is handled again at once, alone; what it raises at then is dead-lettered as `handler_failed`.
        Unavailable and Conflict are no failures of a message: it is delivered again.
        Leaving the context waits for the batch in hand to be settled.
        """
        ...

    def watch(
        self, payload: type[P], handler: Callable[[Event[P]], Awaitable[None]], *, key: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Last value of every subject of the type (or below `key`), then every change; survives reconnects.

        No acknowledgement and no redelivery: for level-triggered state, where only the newest counts.
        """
        ...

    async def tell(self, event: Event[Any]) -> None:
        """Say something to whoever listens now. It is kept nowhere and confirmed by nobody, and may be lost."""
        ...

    def hear(
        self, payload: type[T], handler: Callable[[Event[T]], Awaitable[None]], *, partition: int
    ) -> AbstractAsyncContextManager[None]:
        """What is told of a partition from now on; survives reconnects, but what is told meanwhile is missed.

        Nothing is repeated: for what is told again and again. What cannot be read reaches nobody.
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
        """Everything of a type (in one partition) after a stream position, in order, then live; the caller keeps the
        position. What the handler raises at, alone too, is dead-lettered, and the replay goes on behind it."""
        ...

    def follow(
        self,
        payloads: Sequence[type[Payload]],
        *,
        after: Mapping[str, int] | None = None,
        since: datetime | None = None,
        keys: Sequence[str] = (),
        bodies: bool = True,
    ) -> AbstractAsyncContextManager[Following]:
        """Look on as events of several types pass, from now or from where an earlier look ended.

        `after` gives the last position seen per stream; a stream that is not in it begins at `since`, or now. What
        is no longer there is told as Missed. `keys` keeps to subjects whose key is or begins with one of them, token
        by token. Without `bodies` the broker sends attributes only. Raises Unavailable on entering.
        """
        ...

    async def mark(self, payloads: Sequence[type[Payload]]) -> Mark:
        """The end of what `follow` would show of these types, which are kept by one stream. Raises Unavailable."""
        ...

    async def latest(self, payload: type[P], node: str) -> Event[P] | None:
        """The last event of a type about a node that its stream holds, for a reader that has let it pass; None if there
        is none, it cannot be decoded, or the node's agent sent it and is blocked. Raises Unavailable."""
        ...

    async def settled_up_to(self, consumer: str) -> int:
        """The stream position up to which a durable consumer has settled everything, in whatever process it runs."""
        ...

    async def connected(self) -> bool:
        """A round trip to the broker succeeds now (used by readiness, never by liveness)."""
        ...
