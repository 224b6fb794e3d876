"""Relays the outbox to the bus in order and at least once; the bus deduplicates by event id.

One relay per schema works at a time, guarded by an advisory lock on the session that reads and
deletes: lock and work end together with the session. In a sharded service every replica relays the
partitions it owns, so a stalled replica delays only those; a failing subject delays only itself
(sending). A commit notification (commit_notifier) wakes the relay within milliseconds; the poll is the
fallback for notifications lost with a connection.

New commits do not wait for the answers of earlier ones. An exchange with PostgreSQL costs a busy
service more than a millisecond, so one statement deletes published rows and reads new ones.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg

from slackwater.events.envelope import partition_in
from slackwater.events.serialized import UNKNOWN_TYPE, known_types
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.store.commit_notifier import CommitNotifier
from slackwater.store.driver_errors import connecting
from slackwater.store.inbox import PRUNE
from slackwater.store.metrics import OutboxMetrics
from slackwater.store.names import lock_key, outbox_channel, schema_of
from slackwater.store.outbox_rows import written_from
from slackwater.store.outbox_sender import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PATIENCE_SECONDS,
    OutboxSender,
    SendOutcome,
)
from slackwater.store.port import Backlog, Fence, Publish
from slackwater.store.server_watch import ServerWatch, server_of
from slackwater.store.sessions import Dial
from slackwater.store.tables import HAS_SHARD, PARTITION_OF_ROW
from slackwater.telemetry.metrics import process_meters

POLL_SECONDS = 5.0
_BATCH = 200
_FLYING = 1000
"""Limit of subjects in flight; beyond it, rows of other subjects wait until one completes."""
_MANY = 10
"""This many failed subjects without a success mean that the bus is unavailable, and the rest of the
outbox is not tried. Fewer back off separately, so that other subjects continue.
"""
_SETTLE_SECONDS = 0.02
"""Longest delay before published rows are deleted, normally together with reading the next commit's
rows; a separate exchange would delay new commits. Rows waiting for capacity trigger it at once.
"""
_PRUNE_SECONDS = 600.0

_DELETE = "DELETE FROM outbox WHERE position = ANY($1::bigint[])"
_PENDING = (
    f"WITH gone AS ({_DELETE})"  # noqa: S608 - constants; the rest of the statement still sees what it deletes
    " SELECT position, id::text, type, subject, headers, payload FROM outbox"
    f" WHERE (refused IS NULL OR refused LIKE 'type: %{UNKNOWN_TYPE}' AND type = ANY($4::text[]))"
    " AND NOT subject = ANY($2::text[]) AND NOT type = ANY($5::text[]) AND NOT position = ANY($1)"
)
"""During a rolling change a replica of an older version refuses rows whose event type it does not know. They are sent
in their place: a later row of the same subject must not overtake them."""
_FIRST = " ORDER BY position LIMIT $3"
_OF_MINE = f" AND {PARTITION_OF_ROW} = ANY($6::int[])"
_REFUSE_WITHOUT_SHARD = (
    "UPDATE outbox SET refused = 'subject: no shard in it; sw.v1.EVENT.SHARD.KEY is needed'"  # noqa: S608 - constants
    f" WHERE refused IS NULL AND NOT {HAS_SHARD}"
)
BACKLOG = """
    SELECT count(*) FILTER (WHERE refused IS NULL),
        CAST(coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE refused IS NULL)), 0) AS float8),
        count(*) FILTER (WHERE refused IS NOT NULL)
    FROM outbox
"""
REFUSED_KEPT = 100
"""Newest rows that the bus will never accept, kept to be looked at."""
_PRUNE_REFUSED = (
    "DELETE FROM outbox WHERE position IN (SELECT position FROM outbox WHERE refused IS NOT NULL"  # noqa: S608
    f" AND refused NOT LIKE 'type: %{UNKNOWN_TYPE}' ORDER BY position DESC OFFSET {REFUSED_KEPT})"
)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What must not be started: subjects in flight or backing off, and the types of full streams."""

    subjects: Sequence[str]
    types: Sequence[str]


AskBacklog = Callable[[], Awaitable[Backlog | None]]


class OutboxRelay:
    """slackwater.store.port.Relay on PostgreSQL. `publish` is Bus.publish: idempotent by event id,
    raises Unavailable.
    """

    def __init__(
        self,
        dsn: str,
        service: str,
        publish: Publish,
        clock: Clock,
        fence: Fence | None,
        ask: AskBacklog,
        notifier: CommitNotifier,
        dial: Dial = asyncpg.connect,
        watch: ServerWatch | None = None,
    ) -> None:
        self._dial = dial
        self._watch = watch
        self._fence = fence
        self._ask = ask
        self._dsn = dsn
        self._service = service
        self._publish = publish
        self._clock = clock
        self._published = OutboxMetrics(process_meters()).published.labels(service)
        self._wake = asyncio.Event()
        self._notifier = notifier
        notifier.wakes(self._wake.set)
        if fence is not None:
            fence.on_change(self._wake.set)
        self._has_backlog = False
        self._pause = FIRST_PAUSE_SECONDS
        self._pruned_at = float("-inf")

    async def run(self) -> None:
        """Relay until cancelled; retries with a growing, jittered pause while database or bus is
        unavailable.
        """
        while True:
            try:
                with connecting():
                    await self._session()
            except Unavailable:
                await self._rest()

    async def backlog(self) -> Backlog:
        """Returns the backlog, read through the service's pool: health queries it every few
        seconds, and a session costs a PostgreSQL process. Raises Unavailable when PostgreSQL does
        not answer.
        """
        return await self._ask() or Backlog(0, 0.0)

    async def _connect(self) -> asyncpg.Connection[Any]:
        settings = {
            "application_name": f"slackwater-{self._service}-relay",
            "search_path": schema_of(self._service),
            "synchronous_commit": "off",  # a deletion lost in a crash is published again and dropped by its id
            "timezone": "UTC",
            "jit": "off",
        }
        session = await self._dial(self._dsn, timeout=5, command_timeout=30, server_settings=settings)
        if self._watch is not None:
            self._watch.add(session, await server_of(session))
        return session

    async def _session(self) -> None:
        connection = await self._connect()
        sender = OutboxSender(self._carry, self._is_mine, self._clock, self._landed)
        try:
            connection.add_termination_listener(lambda _: self._wake.set())
            await connection.add_listener(
                outbox_channel(self._service), lambda *notice: self._notifier.notify(notice[3])
            )
            while not await self._own(connection):
                await self._clock.sleep(random.uniform(0.5, 1.0))
            while True:
                self._wake.clear()
                await self._pass(connection, sender)
                if not sender.is_awaiting:
                    await self._prune(connection)
                await self._wait(sender)
        finally:
            await self._end(connection, sender)

    async def _end(self, connection: asyncpg.Connection[Any], sender: OutboxSender) -> None:
        """Settle what the bus has, so that it is not sent again at the next start. If the database does not answer, it
        is sent again and dropped by its id: that error must not take the place of a cancellation."""
        try:
            with suppress(Unavailable), connecting():
                await self._settle(connection, await sender.close())
        finally:
            connection.terminate()

    async def _own(self, connection: asyncpg.Connection[Any]) -> bool:
        """Try the lock without waiting: a waiting statement would hold back vacuum while the other
        relay lives.
        """
        if self._fence is not None:
            return True
        return bool(await connection.fetchval("SELECT pg_try_advisory_lock($1)", lock_key("outbox", self._service)))

    async def _pass(self, connection: asyncpg.Connection[Any], sender: OutboxSender) -> None:
        """Settle completed rows and begin one more batch."""
        outcome, ended = sender.collect_outcome()
        if outcome.failed >= _MANY and not outcome.published and not outcome.refused:
            await self._rest()  # nothing gets through: the bus is away
        await self._mark_refused(connection, outcome)
        room = min(_BATCH, _FLYING - sender.flying(but=ended))
        held = HeldBack(sender.busy(but=ended), sender.held_types())
        rows = await self._exchange(connection, outcome.published, held, room)
        sender.discard(ended)
        sender.begin(rows)
        self._has_backlog = len(rows) == room
        if self._has_backlog and rows:
            self._wake.set()

    def _landed(self) -> None:
        if self._has_backlog:
            self._wake.set()
        else:
            asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._wake.set)

    async def _exchange(
        self, connection: asyncpg.Connection[Any], published: Sequence[int], held: HeldBack, room: int
    ) -> Sequence[asyncpg.Record]:
        """Delete published rows; read waiting rows in order, without those that must not start."""
        if published:
            self._pause = FIRST_PAUSE_SECONDS
        values = (published, held.subjects, room, known_types(), held.types)
        if self._fence is None:
            return list(await connection.fetch(_PENDING + _FIRST, *values))
        owned = [partition for partition in self._fence.held() if self._fence.holds(partition)]
        if not owned and not published:
            return []
        return list(await connection.fetch(_PENDING + _OF_MINE + _FIRST, *values, owned))

    async def _settle(self, connection: asyncpg.Connection[Any], outcome: SendOutcome) -> None:
        if outcome.published:
            await connection.execute(_DELETE, outcome.published)
        await self._mark_refused(connection, outcome)

    async def _mark_refused(self, connection: asyncpg.Connection[Any], outcome: SendOutcome) -> None:
        for position, reason in outcome.refused:
            await connection.execute("UPDATE outbox SET refused = $2 WHERE position = $1", position, reason)

    async def _carry(self, row: asyncpg.Record) -> None:
        await self._publish(written_from(row["id"], row["type"], row["subject"], row["headers"], row["payload"]))
        self._published.inc()

    def _is_mine(self, subject: str) -> bool:
        """Returns whether this replica owns the subject now. Checked before each publish, because
        the process may have stalled after reading.
        """
        return self._fence is None or self._fence.holds(partition_in(subject))

    async def _prune(self, connection: asyncpg.Connection[Any]) -> None:
        if self._clock.monotonic() - self._pruned_at >= _PRUNE_SECONDS:
            self._pruned_at = self._clock.monotonic()
            await connection.execute(PRUNE)
            await connection.execute(_PRUNE_REFUSED)
            await connection.execute(_REFUSE_WITHOUT_SHARD)

    async def _wait(self, sender: OutboxSender) -> None:
        """Wait for a commit, the end of the session, a new partition, an answer, the end of a
        backoff, or the poll.

        All share one event: in a busy process each switch between tasks waits for the loop, and
        waiting for the first of several tasks takes six switches.
        """
        if sender.is_awaiting:
            seconds, then = PATIENCE_SECONDS, sender.wait_no_longer
        else:
            seconds, then = sender.rest_seconds(POLL_SECONDS), None
        timer = asyncio.create_task(self._wake_in(seconds, then))
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _wake_in(self, seconds: float, then: Callable[[], None] | None) -> None:
        await self._clock.sleep(seconds)
        if then is not None:
            then()
        self._wake.set()

    async def _rest(self) -> None:
        await self._clock.sleep(random.uniform(0.5, 1.0) * self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
