"""Jobs of migration and loads of nodes, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from slackwater.console.domain.moves import ENDED, WAITING, MeasuredLoad, MoveCount, MoveHold
from slackwater.console.domain.views import NodeView, UsagePoint
from slackwater.decisions.reasons import Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.events.migration_changed import MigrationChanged


class MemoryMoves:
    """Implements slackwater.console.ports.MoveReads and the related write."""

    _nodes: dict[str, NodeView]
    _usage: dict[str, UsagePoint]
    _decisions: dict[str, DecisionRecord]

    def __init__(self) -> None:
        super().__init__()
        self._moves: dict[str, MigrationChanged] = {}

    async def save_moves(self, rows: Sequence[MigrationChanged]) -> None:
        for row in rows:
            known = self._moves.get(row.job)
            if known is None or row.changed_at >= known.changed_at:
                self._moves[row.job] = row

    async def move_counts(self, since: datetime) -> Sequence[MoveCount]:
        counts = Counter((move.step, move.phase, move.outcome) for move in self._shown_moves(since))
        return [MoveCount(*state, jobs) for state, jobs in sorted(counts.items())]

    async def move_holds(self, limit: int) -> Sequence[MoveHold]:
        held: dict[tuple[str, str], list[MigrationChanged]] = {}
        for move in sorted(self._moves.values(), key=lambda move: move.changed_at):
            if move.step == WAITING and move.held_by:
                held.setdefault((move.held_by, move.hold_scope), []).append(move)
        holds = [
            MoveHold(name, scope, len(moves), moves[-1].hold_count, moves[-1].hold_limit, moves[0].changed_at)
            for (name, scope), moves in held.items()
        ]
        return sorted(holds, key=lambda hold: (-hold.jobs, hold.filter, hold.scope))[:limit]

    async def moves(self, since: datetime, limit: int) -> Sequence[MigrationChanged]:
        moves = sorted(self._shown_moves(since), key=lambda move: move.job)
        moves.sort(key=lambda move: move.changed_at, reverse=True)
        moves.sort(key=lambda move: _rank(move.step))
        return moves[:limit]

    async def gain_records(self, jobs: Sequence[MigrationChanged]) -> Sequence[DecisionRecord]:
        wanted = {(job.node, job.job) for job in jobs}
        newest = {
            record.subject: record
            for record in sorted(self._decisions.values(), key=lambda each: (each.decided_at, each.id))
            if record.reason is Reason.MIGRATION_MEASURED and (record.node, record.subject) in wanted
        }
        return [newest[job] for job in sorted(newest)]

    async def node_loads(self, at: datetime, after: datetime) -> Sequence[MeasuredLoad]:
        last: dict[str, UsagePoint] = {}
        for point in sorted(self._usage.values(), key=lambda point: point.sampled_at):
            if after < point.sampled_at <= at:
                last[point.node] = point
        return [
            MeasuredLoad(name, last[name].usage, node.facts.capacity)
            for name, node in sorted(self._nodes.items())
            if name in last and node.facts is not None
        ]

    def _shown_moves(self, since: datetime) -> list[MigrationChanged]:
        return [move for move in self._moves.values() if move.step != ENDED or move.changed_at >= since]

    def _drop_moves(self, before: datetime) -> None:
        self._moves = {
            job: move for job, move in self._moves.items() if move.step != ENDED or move.changed_at >= before
        }


def _rank(step: str) -> int:
    """Jobs under way first, then those that wait, then those that have ended."""
    return {WAITING: 1, ENDED: 2}.get(step, 0)
