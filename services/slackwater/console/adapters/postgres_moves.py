"""Jobs of migration and loads of nodes, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.console.adapters.fleet_statements import number_in
from slackwater.console.adapters.queries import Queries
from slackwater.console.domain.moves import MeasuredLoad, MoveCount, MoveHold
from slackwater.decisions.reasons import Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.events.migration_changed import MigrationChanged
from slackwater.model.quantities import Resources

_MOVE = TypeAdapter(MigrationChanged)
_RECORD = TypeAdapter(DecisionRecord)
_SAVE = text("""
    INSERT INTO move AS m (job, changed_at, step, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(job text, changed_at timestamptz, step text, body jsonb)
    ON CONFLICT (job) DO UPDATE SET changed_at = excluded.changed_at, step = excluded.step, body = excluded.body
    WHERE excluded.changed_at >= m.changed_at
""")
_SHOWN = "(step <> 'ended' OR changed_at >= :since)"
_COUNTS = text(f"""
    SELECT step, coalesce(body ->> 'phase', '') AS phase, coalesce(body ->> 'outcome', '') AS outcome, count(*)
    FROM move WHERE {_SHOWN} GROUP BY 1, 2, 3
    ORDER BY step COLLATE "C", coalesce(body ->> 'phase', '') COLLATE "C", coalesce(body ->> 'outcome', '') COLLATE "C"
""")  # noqa: S608 - a constant of this module


def _amount(path: str) -> str:
    """SQL for a number in a document, 0 where there is none."""
    return f"coalesce({number_in(path)}, 0)"


_HOLDS = text(f"""
    SELECT held_by, scope, count(*), (array_agg(used ORDER BY changed_at DESC))[1],
        (array_agg(most ORDER BY changed_at DESC))[1], min(changed_at)
    FROM (
        SELECT body ->> 'held_by' AS held_by, coalesce(body ->> 'hold_scope', '') AS scope, changed_at,
            {_amount("body -> 'hold_count'")} AS used, {_amount("body -> 'hold_limit'")} AS most
        FROM move WHERE step = 'waiting' AND coalesce(body ->> 'held_by', '') <> ''
    ) AS held GROUP BY held_by, scope ORDER BY count(*) DESC, held_by COLLATE "C", scope COLLATE "C" LIMIT :limit
""")  # noqa: S608 - constants of this module
_MOVES = text(f"""
    SELECT CAST(body AS text) FROM move WHERE {_SHOWN}
    ORDER BY CASE step WHEN 'waiting' THEN 1 WHEN 'ended' THEN 2 ELSE 0 END, changed_at DESC, job COLLATE "C"
    LIMIT :limit
""")  # noqa: S608 - a constant of this module
_GAINS = text("""
    SELECT DISTINCT ON (d.subject COLLATE "C") CAST(d.body AS text) FROM decision AS d
    JOIN unnest(CAST(:nodes AS text[]), CAST(:jobs AS text[])) AS wanted(node, job)
        ON d.node = wanted.node AND d.subject = wanted.job
    WHERE d.reason = :reason ORDER BY d.subject COLLATE "C", d.decided_at DESC, d.id DESC
""")
_AMOUNTS = ", ".join(
    _amount(f"{where} -> '{resource}'")
    for where in ("last.body -> 'usage'", "n.facts -> 'capacity'")
    for resource in ("cpu_milli", "memory_bytes")
)
_LOADS = text(f"""
    SELECT n.name, {_AMOUNTS} FROM node AS n CROSS JOIN LATERAL (
        SELECT body FROM usage_point AS u WHERE u.node = n.name AND sampled_at <= :at AND sampled_at > :after
        ORDER BY sampled_at DESC LIMIT 1
    ) AS last WHERE n.facts IS NOT NULL ORDER BY n.name COLLATE "C"
""")  # noqa: S608 - constants of this module
PRUNE_MOVES = text("DELETE FROM move WHERE step = 'ended' AND changed_at < :before")


class PostgresMoves(Queries):
    """Implements slackwater.console.ports.MoveReads and the related write."""

    async def save_moves(self, rows: Sequence[MigrationChanged]) -> None:
        newest = {row.job: row for row in sorted(rows, key=lambda row: row.changed_at)}
        saved = [
            {
                "job": row.job,
                "changed_at": row.changed_at.isoformat(),
                "step": row.step,
                "body": _MOVE.dump_python(row, mode="json"),
            }
            for row in newest.values()
        ]
        await self._write((_SAVE, saved))

    async def move_counts(self, since: datetime) -> Sequence[MoveCount]:
        return [MoveCount(*row) for row in await self._rows(_COUNTS, since=since)]

    async def move_holds(self, limit: int) -> Sequence[MoveHold]:
        return [MoveHold(*row) for row in await self._rows(_HOLDS, limit=limit)]

    async def moves(self, since: datetime, limit: int) -> Sequence[MigrationChanged]:
        return await self._all(_MOVE, _MOVES, since=since, limit=limit)

    async def gain_records(self, jobs: Sequence[MigrationChanged]) -> Sequence[DecisionRecord]:
        nodes, names = [job.node for job in jobs], [job.job for job in jobs]
        return await self._all(_RECORD, _GAINS, nodes=nodes, jobs=names, reason=Reason.MIGRATION_MEASURED.value)

    async def node_loads(self, at: datetime, after: datetime) -> Sequence[MeasuredLoad]:
        rows = await self._rows(_LOADS, at=at, after=after)
        return [
            MeasuredLoad(name, Resources(int(cpu), int(memory)), Resources(int(cpus), int(whole)))
            for name, cpu, memory, cpus, whole in rows
        ]
