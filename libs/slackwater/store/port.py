"""The store as adapters see it.

A unit of work is one transaction that holds a service's state, the events it publishes (outbox) and
the events it has handled (inbox): all or nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.events.envelope import Event
from slackwater.events.serialized import Written
from slackwater.model.errors import SlackwaterError
from slackwater.runtime.partition_sharding import LeaseStore

if TYPE_CHECKING:
    from slackwater.store.keyed import KeyedRows, KeyedTable
    from slackwater.store.quarantine import Quarantine

T = TypeVar("T")

Publish = Callable[[Written], Awaitable[None]]
"""`Bus.publish`: returns when the broker has stored the event; idempotent by event id, raises
Unavailable.
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Events committed and not yet published, the age of the oldest, and events set aside: the bus will never
    accept them, they wait for nothing, and no other event waits for them.
    """

    depth: int
    oldest_age_seconds: float
    refused: int = 0


class Fence(Protocol):
    """The leases a replica assumes it holds (slackwater.runtime.partition_sharding.Ownership); the database
    is authoritative.
    """

    @property
    def member(self) -> str: ...

    def held(self) -> Mapping[int, int]:
        """Returns epochs by partition."""
        ...

    def holds(self, partition: int) -> bool:
        """Returns whether the replica may act for a partition now; False while its heartbeat is
        overdue.
        """
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Register a callback for every change that enables further work."""
        ...

    def refused(self, partitions: Iterable[int]) -> None:
        """Report partitions that another replica owns, after a write was refused."""
        ...


class Relay(Protocol):
    """Publishes committed events. A service runs one relay beside its consumers."""

    async def run(self) -> None:
        """Work until cancelled, through outages of bus and database."""
        ...

    async def backlog(self) -> Backlog:
        """Returns the current backlog. Raises Unavailable when PostgreSQL does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class RowChange:
    """`UPDATE … WHERE …` of one row, its values by name, and the error for a missing row."""

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
        """Declare that this transaction writes state of these nodes (published events declare
        theirs themselves).

        Behind a fence the commit raises Fenced, and nothing is written, unless their partitions
        have been held since before the transaction began.
        """
        ...

    def concerns_partition(self, partition: int) -> None:
        """As `concerns`, for state that belongs to a whole partition."""
        ...

    def changes_last(self, change: RowChange) -> None:
        """Change one row at the end, in one exchange with the events; without earlier reads or
        writes that is the whole transaction. At most once. If the row does not exist, leaving the
        context raises `change.missed` and writes nothing.
        """
        ...

    async def first_time(self, consumer: str, event_id: str) -> bool:
        """Record that `consumer` handles `event_id` in this transaction; False if it was handled
        before.
        """
        ...

    async def first_times(self, consumer: str, event_ids: Collection[str]) -> set[str]:
        """Record many events at once; returns the new ones."""
        ...

    def keyed(self, table: KeyedTable[T], quarantine: Quarantine) -> KeyedRows[T]:
        """Returns the rows of a table with one row per key. Unreadable rows are recorded in the
        quarantine.
        """
        ...


class Database(Protocol):
    """One service's schema."""

    def unit_of_work(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Begin a transaction. Raises Unavailable when PostgreSQL does not answer."""
        ...

    async def ping(self) -> bool:
        """Returns whether a round trip succeeds now and writes would be accepted (for
        readiness).
        """
        ...

    def relay(self, publish: Publish) -> Relay:
        """Returns the relay of this schema's outbox. Of several running at once, one works and the
        others wait; behind a fence each works for its own partitions.
        """
        ...

    def leases(self, member: str) -> LeaseStore:
        """Returns the leases of a sharded service, for one of its replicas."""
        ...

    def fenced(self, fence: Fence) -> Database:
        """Returns the same schema, restricted to writes that `fence` holds."""
        ...

    def reserved(self) -> Database:
        """Returns the same schema over a session that only leases and health use: short statements,
        which run also while all other sessions are in use.
        """
        ...

    async def close(self) -> None:
        """Close every connection; the database must not be used afterwards."""
        ...
