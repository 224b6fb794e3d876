"""The control loop's health in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from slackwater.console.adapters import loop_statements as sql
from slackwater.console.adapters.queries import Queries
from slackwater.console.domain.dead_letter_views import ReplayView
from slackwater.console.domain.loop import LoopTime, ProcessView
from slackwater.console.domain.views import WindowView
from slackwater.decisions.reasons import DecisionKind

_PROCESS = TypeAdapter(ProcessView)
_WINDOW = TypeAdapter(WindowView)
FORGOTTEN = timedelta(hours=1)
"""A process that has not reported for this long is no longer shown."""


class PostgresLoop(Queries):
    """Implements slackwater.console.ports.LoopReads and the related writes."""

    async def loop_times(self, since: datetime, limit: int) -> Sequence[LoopTime]:
        rows = await self._rows(sql.LOOP_TIMES, since=since, limit=limit)
        return [LoopTime(row[0], row[1], DecisionKind(row[2]), *row[3:]) for row in rows]

    async def save_processes(self, rows: Sequence[ProcessView]) -> None:
        if not rows:
            return
        newest = {row.instance: row for row in sorted(rows, key=lambda row: row.reported_at)}.values()
        bodies = [_PROCESS.dump_python(row, mode="json") for row in newest]
        await self._write(
            (
                sql.SAVE_PROCESSES,
                [{"instance": b["instance"], "reported_at": b["reported_at"], "body": b} for b in bodies],
            )
        )
        await self._execute(sql.FORGET_PROCESSES, before=max(row.reported_at for row in rows) - FORGOTTEN)

    async def processes(self) -> Sequence[ProcessView]:
        return await self._all(_PROCESS, sql.PROCESSES)

    async def note_replay(self, replay: ReplayView) -> bool:
        noted = await self._execute(
            sql.NOTE_REPLAY,
            identity=replay.identity,
            number=replay.number,
            position=replay.position,
            message_id=replay.message_id,
            replayed_at=replay.replayed_at,
            replayed_by=replay.replayed_by,
        )
        return noted > 0

    async def delete_replay(self, replay: ReplayView) -> None:
        await self._execute(sql.FORGET_REPLAY, identity=replay.identity, number=replay.number)

    async def replays(self, identities: Sequence[str]) -> Sequence[ReplayView]:
        return [ReplayView(*row) for row in await self._rows(sql.REPLAYS, identities=list(identities))]

    async def save_windows(self, rows: Sequence[WindowView]) -> None:
        bodies = [_WINDOW.dump_python(row, mode="json") for row in {row.event_id: row for row in rows}.values()]
        await self._write(
            (sql.SAVE_WINDOWS, [{"event_id": b["event_id"], "closed_at": b["closed_at"], "body": b} for b in bodies])
        )

    async def window(self, event_id: str) -> WindowView | None:
        return await self._one(_WINDOW, sql.WINDOW_EVENT, id=event_id)
