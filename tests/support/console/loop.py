"""The control loop's health, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from slackwater.console.domain.dead_letter_views import ReplayView
from slackwater.console.domain.loop import LoopTime, ProcessView
from slackwater.console.domain.views import EffectView, UsagePoint, WindowView
from slackwater.decisions.reasons import DecisionKind, Mode
from slackwater.decisions.record import DecisionRecord

_ACTIONS = (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT)


class MemoryLoop:
    """Implements slackwater.console.ports.LoopReads and the related writes."""

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, UsagePoint] = {}
        self._decisions: dict[str, DecisionRecord] = {}
        self._effects: dict[str, EffectView] = {}
        self._windows: dict[str, WindowView] = {}
        self._processes: dict[str, ProcessView] = {}
        self._replays: dict[tuple[str, int], ReplayView] = {}

    async def loop_times(self, since: datetime, limit: int) -> Sequence[LoopTime]:
        mine = [d for d in self._decisions.values() if d.kind in _ACTIONS and d.decided_at >= since]
        mine = [d for d in mine if d.mode is not Mode.OBSERVE]
        mine.sort(key=lambda record: (record.decided_at, record.id), reverse=True)
        return [self._loop_time(record) for record in mine[:limit]]

    def _loop_time(self, record: DecisionRecord) -> LoopTime:
        report, effect = self._usage.get(record.trigger_event_id or ""), self._effects.get(record.id)
        return LoopTime(
            record.id,
            record.node,
            record.kind,
            record.decided_at,
            (record.decided_at - report.sampled_at).total_seconds() if report else None,
            effect.seconds_to_actuation if effect else None,
            effect.seconds_to_measurement if effect else None,
        )

    async def save_processes(self, rows: Sequence[ProcessView]) -> None:
        for row in rows:
            known = self._processes.get(row.instance)
            if known is None or row.reported_at >= known.reported_at:
                self._processes[row.instance] = row
        newest = max((row.reported_at for row in rows), default=None)
        if newest is not None:
            limit = newest - timedelta(hours=1)
            self._processes = {k: v for k, v in self._processes.items() if v.reported_at >= limit}

    async def processes(self) -> Sequence[ProcessView]:
        return [self._processes[name] for name in sorted(self._processes)]

    async def note_replay(self, replay: ReplayView) -> bool:
        return self._replays.setdefault((replay.identity, replay.number), replay) is replay

    async def delete_replay(self, replay: ReplayView) -> None:
        self._replays.pop((replay.identity, replay.number), None)

    async def replays(self, identities: Sequence[str]) -> Sequence[ReplayView]:
        mine = [replay for replay in self._replays.values() if replay.identity in identities]
        return sorted(mine, key=lambda replay: (replay.replayed_at, replay.number))

    async def save_windows(self, rows: Sequence[WindowView]) -> None:
        self._windows.update((row.event_id, row) for row in rows)
