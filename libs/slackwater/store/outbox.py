"""The relay: what the outbox holds goes to the bus in order, at least once, and the bus drops what it has seen.

One relay per schema works at a time, guarded by an advisory lock on the very session that reads and deletes: when the
session goes, the lock and the work go together. Of a sharded service every replica relays, each the partitions that it
owns: a replica that stands still holds up nobody. It wakes on NOTIFY, so a commit is published within milliseconds;
the poll is a floor for notifications that were lost with a connection.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from slackwater.events.envelope import partition_in
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.identifiers import PARTITIONS, SHARDS
from slackwater.model.time import Clock
from slackwater.store.encoding import event_from
from slackwater.store.faults import connecting
from slackwater.store.inbox import PRUNE
from slackwater.store.metrics import OutboxMetrics
from slackwater.store.names import lock_key, outbox_channel, schema_of
from slackwater.store.port import Backlog, Fence, Publish
from slackwater.telemetry.metrics import process_meters

POLL_SECONDS = 5.0
_BATCH = 200
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 5.0
_PRUNE_SECONDS = 600.0

_PENDING = (
    "SELECT position, id::text, type, subject, headers, payload FROM outbox"
    " WHERE refused IS NULL ORDER BY position LIMIT $1"
)
_PENDING_OF_MINE = (
    "SELECT position, id::text, type, subject, headers, payload FROM outbox WHERE refused IS NULL"  # noqa: S608 - ints
    f" AND split_part(subject, '.', 5)::int * {PARTITIONS} / {SHARDS} = ANY($2::int[]) ORDER BY position LIMIT $1"
)
BACKLOG = (
    "SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM outbox"
    " WHERE refused IS NULL"
)


@dataclass(slots=True)
class _Outcome:
    """What one pass did: rows that are through, rows the bus will never take, and whether the bus was away."""

    published: list[int]
    refused: list[tuple[int, str]]
    away: Unavailable | None = None


AskBacklog = Callable[[], Awaitable[Backlog | None]]


class OutboxRelay:
    """slackwater.store.port.Relay on PostgreSQL. `publish` is the bus's: idempotent by event id, raises Unavailable."""

    def __init__(
        self, dsn: str, service: str, publish: Publish, clock: Clock, fence: Fence | None, ask: AskBacklog
    ) -> None:
        self._fence = fence
        self._ask = ask
        self._dsn = dsn
        self._service = service
        self._publish = publish
        self._clock = clock
        self._published = OutboxMetrics(process_meters()).published.labels(service)
        self._wake = asyncio.Event()
        if fence is not None:
            fence.on_change(self._wake.set)
        self._pause = _FIRST_PAUSE_SECONDS
        self._pruned_at = float("-inf")

    async def run(self) -> None:
        """Relay until cancelled; outages of database and bus are waited out with a growing, jittered pause."""
        while True:
            try:
                with connecting():
                    await self._session()
            except Unavailable:
                await self._rest()

    async def backlog(self) -> Backlog:
        """Asked through the service's pool: health looks every few seconds, and a session costs PostgreSQL a process.
        Raises Unavailable when PostgreSQL does not answer."""
        return await self._ask() or Backlog(0, 0.0)

    async def _connect(self) -> asyncpg.Connection[Any]:
        settings = {
            "application_name": f"slackwater-{self._service}-relay",
            "search_path": schema_of(self._service),
            "synchronous_commit": "off",  # a deletion lost in a crash is published again and dropped by its id
            "timezone": "UTC",
            "jit": "off",
        }
        return await asyncpg.connect(self._dsn, timeout=5, command_timeout=30, server_settings=settings)

    async def _session(self) -> None:
        connection = await self._connect()
        try:
            connection.add_termination_listener(lambda _: self._wake.set())
            await connection.add_listener(outbox_channel(self._service), lambda *_: self._wake.set())
            while not await self._own(connection):
                await self._clock.sleep(random.uniform(0.5, 1.0))
            while True:
                self._wake.clear()
                if await self._pass(connection):
                    continue
                await self._prune(connection)
                await self._wait()
        finally:
            connection.terminate()

    async def _own(self, connection: asyncpg.Connection[Any]) -> bool:
        """Tried, not waited for: a waiting statement would hold back vacuum for as long as the other relay lives."""
        if self._fence is not None:
            return True
        return bool(await connection.fetchval("SELECT pg_try_advisory_lock($1)", lock_key("outbox", self._service)))

    async def _pass(self, connection: asyncpg.Connection[Any]) -> bool:
        """Publish one batch; True when there may be more at once."""
        rows = await self._pending(connection)
        if not rows:
            return False
        outcome = _Outcome([], [])
        try:
            await self._send(rows, outcome)
        finally:  # also when cancelled: what the bus has is not to be sent again at the next start
            await self._settle(connection, outcome)
        if outcome.away is not None:
            await self._rest()
        return True

    async def _pending(self, connection: asyncpg.Connection[Any]) -> Sequence[asyncpg.Record]:
        if self._fence is None:
            return list(await connection.fetch(_PENDING, _BATCH))
        mine = [partition for partition in self._fence.held() if self._fence.holds(partition)]
        return list(await connection.fetch(_PENDING_OF_MINE, _BATCH, mine)) if mine else []

    async def _send(self, rows: Sequence[asyncpg.Record], outcome: _Outcome) -> None:
        """Subjects side by side, each of them one after the other: a failure stops only its own subject."""
        by_subject: dict[str, list[asyncpg.Record]] = defaultdict(list)
        for row in rows:
            by_subject[row["subject"]].append(row)
        async with asyncio.TaskGroup() as group:
            for own in by_subject.values():
                group.create_task(self._send_subject(own, outcome))

    async def _settle(self, connection: asyncpg.Connection[Any], outcome: _Outcome) -> None:
        if outcome.published:
            await connection.execute("DELETE FROM outbox WHERE position = ANY($1::bigint[])", outcome.published)
            self._pause = _FIRST_PAUSE_SECONDS
        for position, reason in outcome.refused:
            await connection.execute("UPDATE outbox SET refused = $2 WHERE position = $1", position, reason)

    async def _send_subject(self, rows: Sequence[asyncpg.Record], outcome: _Outcome) -> None:
        for row in rows:
            if not self._is_mine(row["subject"]):
                return
            try:
                await self._publish(event_from(row["id"], row["type"], row["headers"], row["payload"]))
            except Unavailable as error:
                outcome.away = error
                return
            except InvalidInput as error:
                outcome.refused.append((row["position"], error.message))
                continue
            outcome.published.append(row["position"])
            self._published.inc()

    def _is_mine(self, subject: str) -> bool:
        """Asked before each publish: a process may have been stopped since it read its rows."""
        return self._fence is None or self._fence.holds(partition_in(subject))

    async def _prune(self, connection: asyncpg.Connection[Any]) -> None:
        if self._clock.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = self._clock.monotonic()
            await connection.execute(PRUNE)

    async def _wait(self) -> None:
        """Until a commit notifies, the session ends, something new is owned, or the poll is due."""
        timer = asyncio.ensure_future(self._clock.sleep(POLL_SECONDS))
        wake = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((timer, wake), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            wake.cancel()
            await asyncio.gather(timer, wake, return_exceptions=True)

    async def _rest(self) -> None:
        await self._clock.sleep(random.uniform(0.5, 1.0) * self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
