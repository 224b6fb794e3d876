"""Partition leases in the service's schema. The database decides which members are alive, which own
a partition, and whose writes are accepted.

A member holds a lease while its heartbeat has not expired; a heartbeat is one statement on one row.
Leases use a session of their own, so that an exhausted pool does not end a replica's lease. Claims
are durable before they take effect. Heartbeats need not be: one lost in a crash only makes a member
expire earlier, and the fence ignores heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.runtime.ownership import Lease, LeaseRow, ReplicaMember, View, instance_of
from slackwater.store.driver_errors import connecting
from slackwater.store.names import news_channel, readable_time, schema_of
from slackwater.store.sessions import Dial

_BEAT = f"""
WITH renewed AS (
    INSERT INTO members (member, expires_at) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
    ON CONFLICT (member) DO UPDATE SET expires_at = excluded.expires_at
)
SELECT partition, owner, epoch, {readable_time("changed_at")} AS at, clock_timestamp() AS now FROM leases
UNION ALL
SELECT NULL, member, 0, {readable_time("expires_at")}, clock_timestamp() FROM members
"""  # noqa: S608 - constants
_CLAIM = """
UPDATE leases SET owner = $1, changed_at = clock_timestamp(),
    epoch = greatest(epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
WHERE partition IN (
    SELECT partition FROM leases
    WHERE partition = ANY($2::int[]) AND (owner IS NULL OR split_part(owner, '/', 1) = $3 OR NOT EXISTS (
        SELECT FROM members WHERE member = leases.owner AND expires_at > clock_timestamp()))
    ORDER BY partition FOR UPDATE SKIP LOCKED)
RETURNING partition, epoch
"""
_FORGET_THE_DEAD = """
DELETE FROM members WHERE member <> $1
    AND (split_part(member, '/', 1) = $2 OR expires_at < clock_timestamp() - interval '1 minute')
"""
STANDSTILL_SECONDS = 3
"""Shorter than a lease, so a client that lost its lease by stalling has exceeded it."""
_END_STATEMENTS_THAT_STAND_STILL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE usename = current_user AND datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'
    AND wait_event IN ('ClientRead', 'ClientWrite') AND query_start < now() - make_interval(secs => $1)
"""
"""PostgreSQL has no timeout for a COPY with a silent client, or for a result that is not read; both
keep locks.
"""
_RELEASE = """
UPDATE leases SET owner = NULL, changed_at = clock_timestamp() WHERE owner = $1
    AND (partition, epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))
"""
_LEAVE = (
    "WITH freed AS (UPDATE leases SET owner = NULL, changed_at = clock_timestamp() WHERE owner = $1)"
    " DELETE FROM members WHERE member = $1"
)
STILL_HELD = (
    "SELECT partition FROM leases WHERE owner = :owner AND (partition, epoch) IN"
    " (SELECT * FROM unnest(CAST(:partitions AS int[]), CAST(:epochs AS bigint[]))) FOR SHARE"
)
"""Selects and locks the leases that an owner still holds, until the end of the transaction.
Parameters: `values_of`.
"""
_STILL_HELD = text(STILL_HELD)


class PostgresLeases:
    """slackwater.runtime.partition_sharding.LeaseStore on a session of its own, opened on demand and again
    after a loss.
    """

    def __init__(self, dsn: str, service: str, member: str, dial: Dial = asyncpg.connect) -> None:
        self.member = member
        self._dial = dial
        self._dsn = dsn
        self._service = service
        self._connection: asyncpg.Connection[Any] | None = None
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()

    async def beat(self, ttl_seconds: float) -> View:
        rows = await self._fetch(_BEAT, self.member, ttl_seconds)
        leases = [LeaseRow(row[0], row[1], row[2], row[3]) for row in rows if row[0] is not None]
        members = [ReplicaMember(row[1], row[3]) for row in rows if row[0] is None]
        return View(sorted(leases, key=lambda lease: lease.partition), members, rows[0][4])

    async def claim(self, partitions: Sequence[int]) -> Sequence[Lease]:
        """Claim partitions; durable on return. Rows locked by a writer at this moment are left for
        the next attempt. Statements of the service whose client has stalled are terminated, because
        their locks would block the new owner.
        """
        with connecting():
            async with self._session() as connection:
                async with connection.transaction():
                    await connection.execute("SET LOCAL synchronous_commit TO on")
                    instance = instance_of(self.member)
                    rows = await connection.fetch(_CLAIM, self.member, list(partitions), instance)
                    await connection.execute(_FORGET_THE_DEAD, self.member, instance)
                if rows:
                    await connection.execute(_END_STATEMENTS_THAT_STAND_STILL, STANDSTILL_SECONDS)
        return [Lease(row["partition"], row["epoch"]) for row in rows]

    async def release(self, leases: Sequence[Lease]) -> None:
        given = [lease.partition for lease in leases], [lease.epoch for lease in leases]
        await self._fetch(_RELEASE, self.member, *given)
        await self._notify()

    async def leave(self) -> None:
        await self._fetch(_LEAVE, self.member)
        await self._notify()

    async def news(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _notify(self) -> None:
        await self._fetch("SELECT pg_notify($1, $2)", news_channel(self._service), self.member)

    async def _fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        with connecting():
            async with self._session() as connection:
                return list(await connection.fetch(statement, *values))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[asyncpg.Connection[Any]]:
        """Yields the session, and ends it after any failure: its server may be silent, or read-only, while the address
        leads to another by now.
        """
        async with self._turn:
            try:
                is_new = self._connection is None or self._connection.is_closed()
                yield await self._open()
            except BaseException:
                await self.close()
                raise
            if is_new:  # notifications may have been missed; of a session that failed at once there is nothing to hear
                self._news.set()

    async def _open(self) -> asyncpg.Connection[Any]:
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        settings = {
            "application_name": f"slackwater-{self._service}-leases",
            "search_path": schema_of(self._service),
            "synchronous_commit": "off",
            "timezone": "UTC",
            "jit": "off",
        }
        self._connection = await self._dial(self._dsn, timeout=3, command_timeout=3, server_settings=settings)
        await self._connection.add_listener(news_channel(self._service), self._on_notice)
        return self._connection

    def _on_notice(self, _connection: object, _pid: int, _channel: str, sender: object) -> None:
        if sender != self.member:
            self._news.set()


async def still_held(connection: AsyncConnection, owner: str, leases: Mapping[int, int]) -> set[int]:
    """Returns which of the leases (epoch by partition) `owner` holds; they stay held until the end
    of this transaction.

    A claim does not wait for it: it takes a partition only when no transaction writes under it.
    """
    return {row.partition for row in await connection.execute(_STILL_HELD, values_of(owner, leases))}


def values_of(owner: str, leases: Mapping[int, int]) -> dict[str, Any]:
    """Returns the parameters of STILL_HELD."""
    return {"owner": owner, "partitions": list(leases), "epochs": list(leases.values())}
