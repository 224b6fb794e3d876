"""One transaction with state, outbox and inbox, fenced by the leases on its partitions."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.events.envelope import Event
from slackwater.events.serialized import type_of
from slackwater.model.errors import Fenced
from slackwater.model.identifiers import partition_of
from slackwater.store import inbox
from slackwater.store.commit_notifier import CommitNotifier
from slackwater.store.keyed import KeyedTable
from slackwater.store.keyed_rows import PostgresKeyedRows
from slackwater.store.leases import STILL_HELD, still_held, values_of
from slackwater.store.names import outbox_channel
from slackwater.store.outbox_rows import headers_of
from slackwater.store.port import Fence, RowChange
from slackwater.store.quarantine import Quarantine

T = TypeVar("T")

_ALL_HELD = "(SELECT count(*) FROM held) = cardinality(CAST(:partitions AS int[]))"
_EVENTS = (
    "unnest(CAST(:ids AS uuid[]), CAST(:types AS text[]), CAST(:subjects AS text[]),"
    " CAST(:headers AS text[]), CAST(:payloads AS text[])) AS given"
)


@cache
def _last_exchange(update: str | None, tells: bool, is_fenced: bool) -> TextClause:
    """Returns one statement that writes the last row, the events, the relay notification and the
    fence check: each exchange costs a busy service more than a millisecond.

    Alone it is a whole transaction, so it writes nothing unless every lease is held and the row
    exists. The row comes first, so that the positions of its events follow the order of its locks.
    An event whose id already waits in the outbox was committed before, by a transaction whose answer
    was lost.
    """
    steps, columns = [], []
    if is_fenced:
        steps.append(f"held AS ({STILL_HELD})")
        columns.append("ARRAY(SELECT partition FROM held) AS held")
    if update is not None:
        steps.append(f"saved AS ({update}{f' AND {_ALL_HELD}' if is_fenced else ''} RETURNING 1)")
        columns.append("(SELECT count(*) FROM saved) AS saved")
    if tells:
        source = f"{_EVENTS}, saved" if update is not None else _EVENTS
        condition = f" WHERE {_ALL_HELD}" if is_fenced and update is None else ""
        steps.append(
            "written AS (INSERT INTO outbox (id, type, subject, headers, payload)"  # noqa: S608 - constants
            f" SELECT given.* FROM {source}{condition} ON CONFLICT (id) DO NOTHING)"
        )
        columns.append("pg_notify(:channel, :token)")
    return text(f"WITH {', '.join(steps)} SELECT {', '.join(columns)}")


class FenceCheck:
    """The leases held when a unit of work was requested; state read after that belongs to them."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._held = dict(fence.held())

    @property
    def member(self) -> str:
        return self._fence.member

    def wanted(self, concerned: set[int]) -> dict[int, int]:
        """Returns the leases on these partitions. Raises Fenced if one was not held from the
        beginning.
        """
        self.refuse(concerned - self._held.keys())
        return {partition: self._held[partition] for partition in sorted(concerned)}

    def refuse(self, missing: set[int]) -> None:
        """Raises Fenced unless `missing` is empty."""
        if missing:
            self._fence.refused(missing)
            raise Fenced(f"partitions {sorted(missing)} are not owned by {self._fence.member}: nothing was written")


class PostgresUnitOfWork:
    """slackwater.store.port.UnitOfWork; created by PostgresDatabase.unit_of_work, which commits
    it.
    """

    def __init__(
        self, connection: AsyncConnection, service: str, notifier: CommitNotifier, guard: FenceCheck | None = None
    ) -> None:
        self._connection = connection
        self._service = service
        self._notifier = notifier
        self._token = ""
        self._guard = guard
        self._events: list[Event[Any]] = []
        self._concerned: set[int] = set()
        self._last: RowChange | None = None

    @property
    def connection(self) -> AsyncConnection:
        return self._connection

    async def publish(self, event: Event[Any]) -> None:
        """Queue an event until the commit: positions assigned last follow the order of the row
        locks, and one INSERT writes all.
        """
        self._events.append(event)
        self.concerns(event.data.shard_key())

    def concerns(self, *keys: str) -> None:
        if self._guard is not None:
            self._concerned.update(map(partition_of, keys))

    def concerns_partition(self, partition: int) -> None:
        if self._guard is not None:
            self._concerned.add(partition)

    async def first_time(self, consumer: str, event_id: str) -> bool:
        return await inbox.first_time(self._connection, consumer, event_id)

    async def first_times(self, consumer: str, event_ids: Collection[str]) -> set[str]:
        return await inbox.first_times(self._connection, consumer, event_ids)

    def keyed(self, table: KeyedTable[T], quarantine: Quarantine) -> PostgresKeyedRows[T]:
        return PostgresKeyedRows(self, self._service, table, quarantine)

    def changes_last(self, change: RowChange) -> None:
        assert self._last is None, "a unit of work changes one row last"  # noqa: S101 - a defect of Slackwater
        self._last = change

    async def flush(self) -> None:
        """Write the last row, the outbox rows and the notification. Raises Fenced before anything
        is committed.

        The fence is checked last, so that no claim can intervene before the commit.
        """
        guard = self._guard if self._concerned else None
        leases = {} if guard is None else guard.wanted(self._concerned)
        if not self._events and self._last is None:
            if guard is not None:
                guard.refuse(self._concerned - await still_held(self._connection, guard.member, leases))
            return
        if not self._connection.in_transaction():  # nothing has been read or written yet: no transaction is needed
            await self._connection.execution_options(isolation_level="AUTOCOMMIT")
        last, tells = self._last, bool(self._events)
        statement = _last_exchange(None if last is None else last.update, tells, guard is not None)
        values = (dict(last.values) if last is not None else {}) | (self._values() if tells else {})
        values |= {} if guard is None else values_of(guard.member, leases)
        done = (await self._connection.execute(statement, values)).one()
        if guard is not None:
            guard.refuse(self._concerned - set(done.held))
        if last is not None and not done.saved:
            raise last.missed

    def committed(self) -> None:
        """Notify the relays; call it after the commit."""
        if self._token:
            self._notifier.notify(self._token)

    def _values(self) -> dict[str, Any]:
        events, self._events = self._events, []
        self._token = self._notifier.token()
        return {
            "channel": outbox_channel(self._service),
            "token": self._token,
            "ids": [event.id for event in events],
            "types": [type_of(event.data) for event in events],
            "subjects": [event.subject for event in events],
            "headers": [headers_of(event) for event in events],
            "payloads": [event.data.body() for event in events],
        }
