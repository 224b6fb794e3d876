"""One transaction: state, outbox and inbox together, and the proof that its partitions are still owned."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.events.envelope import Event
from slackwater.events.written import type_of
from slackwater.model.errors import Fenced
from slackwater.model.identifiers import partition_of
from slackwater.store import inbox
from slackwater.store.encoding import headers_of
from slackwater.store.leases import STILL_HELD, still_held, values_of
from slackwater.store.names import outbox_channel
from slackwater.store.port import Fence

_WRITTEN = (
    "WITH written AS (INSERT INTO outbox (id, type, subject, headers, payload)"
    " SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:types AS text[]), CAST(:subjects AS text[]),"
    " CAST(:headers AS text[]), CAST(:payloads AS text[])))"
)
_TOLD = " SELECT pg_notify(:channel, '')"
_INSERT = text(_WRITTEN + _TOLD)
"""And the word to the relay with it, and the fence: each exchange costs a busy service more than a millisecond."""
_INSERT_FENCED = text(
    f"{_WRITTEN}, held AS ({STILL_HELD}){_TOLD}, ARRAY(SELECT partition FROM held) AS held"  # noqa: S608 - constants
)


class Guard:
    """The leases that were held when a unit of work was asked for; state read after that is theirs."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._held = dict(fence.held())

    @property
    def member(self) -> str:
        return self._fence.member

    def wanted(self, concerned: set[int]) -> dict[int, int]:
        """The leases on these partitions. Raises Fenced if one was not held from the beginning."""
        self.refuse(concerned - self._held.keys())
        return {partition: self._held[partition] for partition in sorted(concerned)}

    def refuse(self, missing: set[int]) -> None:
        """Raises Fenced if there are any."""
        if missing:
            self._fence.refused(missing)
            raise Fenced(f"partitions {sorted(missing)} are not owned by {self._fence.member}: nothing was written")


class PostgresUnitOfWork:
    """slackwater.store.port.UnitOfWork; made by PostgresDatabase.unit_of_work, which commits it."""

    def __init__(self, connection: AsyncConnection, service: str, guard: Guard | None = None) -> None:
        self._connection = connection
        self._service = service
        self._guard = guard
        self._events: list[Event[Any]] = []
        self._concerned: set[int] = set()

    @property
    def connection(self) -> AsyncConnection:
        return self._connection

    async def publish(self, event: Event[Any]) -> None:
        """Kept until the commit: positions taken last follow the order of the row locks, one INSERT serves all."""
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

    async def flush(self) -> None:
        """Write the outbox rows and the notification that the commit sends. Raises Fenced before anything is committed.

        The fence comes last: from then on no claim of another can slip in before the commit.
        """
        guard, concerned = self._guard, self._concerned
        if guard is None or not concerned:
            if self._events:
                await self._connection.execute(_INSERT, self._values())
            return
        leases = guard.wanted(concerned)
        if self._events:
            values = self._values() | values_of(guard.member, leases)
            held = set((await self._connection.execute(_INSERT_FENCED, values)).one().held)
        else:
            held = await still_held(self._connection, guard.member, leases)
        guard.refuse(concerned - held)

    def _values(self) -> dict[str, Any]:
        events, self._events = self._events, []
        return {
            "channel": outbox_channel(self._service),
            "ids": [event.id for event in events],
            "types": [type_of(event.data) for event in events],
            "subjects": [event.subject for event in events],
            "headers": [headers_of(event) for event in events],
            "payloads": [event.data.model_dump_json() for event in events],
        }
