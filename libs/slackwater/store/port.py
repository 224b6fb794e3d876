"""What adapters see of the store.

A unit of work is one transaction that holds a service's state, the events it publishes (outbox) and the events it
has handled (inbox): either all of it happened or none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.events.envelope import Event
from slackwater.events.written import Written
from slackwater.model.errors import SlackwaterError
from slackwater.runtime.sharding import LeaseStore

if TYPE_CHECKING:
    from slackwater.store.keyed import KeyedRows, KeyedTable
    from slackwater.store.quarantine import Quarantine

T = TypeVar("T")

Publish = Callable[[Written], Awaitable[None]]
"""`Bus.publish`: returns when the broker has stored the event, idempotent by event id, raises Unavailable."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Events that are committed and not yet published, and the age of the oldest of them."""

    depth: int
    oldest_age_seconds: float


class Fence(Protocol):
    """What a replica believes to own (slackwater.runtime.sharding.Ownership); the database has the last word."""

    @property
    def member(self) -> str: ...

    def held(self) -> Mapping[int, int]:
        """Epoch by partition."""
        ...

    def holds(self, partition: int) -> bool:
        """Whether it may act for a partition now; not while its heartbeat is overdue."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have `tell` called whenever something can be done that could not."""
        ...

    def refused(self, partitions: Iterable[int]) -> None:
        """These are owned by another: nothing was written."""
        ...


class Relay(Protocol):
    """Carries committed events to the bus. A service runs one beside its consumers."""

    async def run(self) -> None:
        """Work until cancelled, through outages of bus and database."""
        ...

    async def backlog(self) -> Backlog:
        """How far behind the relay is now. Raises Unavailable when PostgreSQL does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class RowChange:
    """`UPDATE … WHERE …` of one row, its values by name, and what is to be said if the row is not there."""

    update: str
    values: Mapping[str, Any]
    missed: SlackwaterError


class UnitOfWork(Protocol):
    """One open transaction. Leaving its context commits; an exception rolls back."""

    @property
    def connection(self) -> AsyncConnection:
        """The SQLAlchemy connection of this transaction, with search_path set to the service's schema."""
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox; the relay publishes it after commit, in order per subject."""
        ...

    def concerns(self, *keys: str) -> None:
        """This transaction writes what belongs to these nodes (of an event that is published it is known by itself).

        Behind a fence the commit raises Fenced, and nothing is written, unless their partitions are held since
        before the transaction began.
        """
        ...

    def concerns_partition(self, partition: int) -> None:
        """The same for what belongs to a partition as a whole."""
        ...

    def changes_last(self, change: RowChange) -> None:
        """Change one row at the end, in one exchange with the events: where nothing else is read or written before,
        that is the whole transaction. Once at most. Leaving the context raises `change.missed` if there is no such
        row, and nothing is written."""
        ...

    async def first_time(self, consumer: str, event_id: str) -> bool:
        """Note that `consumer` handles `event_id` in this transaction; False if it had been handled before."""
        ...

    async def first_times(self, consumer: str, event_ids: Collection[str]) -> set[str]:
        """The same for many at once: those that had not been handled before."""
        ...

    def keyed(self, table: KeyedTable[T], quarantine: Quarantine) -> KeyedRows[T]:
        """The rows of a table with one row per key. What cannot be read is noted in the quarantine."""
        ...


class Database(Protocol):
    """One service's schema."""

    def unit_of_work(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Begin a transaction. Raises Unavailable when PostgreSQL does not answer."""
        ...

    async def ping(self) -> bool:
        """A round trip succeeds now, and writes would be taken (for readiness)."""
        ...

    def relay(self, publish: Publish) -> Relay:
        """The relay of this schema's outbox; of several running at once, one works and the others wait. Behind a fence
        each works for the partitions that it owns."""
        ...

    def leases(self, member: str) -> LeaseStore:
        """The leases of this service, for one of its replicas; only of a sharded service."""
        ...

    def fenced(self, fence: Fence) -> Database:
        """The same schema, where only what `fence` holds can be written."""
        ...

    async def close(self) -> None:
        """Close every connection; the database must not be used afterwards."""
        ...
