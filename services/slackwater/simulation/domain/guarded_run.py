"""One node under one policy, scene by scene: what is used, a look every so often, and what follows from it. Pure.

Each look is slackwater.waterline.node_guard.guard (or, where nothing happens, its glance), as ensurance takes it for a
report. A limit holds from the look on that set it, and the node confirms it at once; an evicted pod uses what it did
until its grace is over, and comes back as a new pod after a while, if the node is open then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from slackwater.decisions.reasons import Mode, Reason
from slackwater.simulation.domain.guard_tally import GapKey, NodeTally, TalliedWaterline
from slackwater.simulation.domain.scene_view import best_effort_of, pod_of, readings_of
from slackwater.simulation.domain.scenes import Present, SceneNode, UsageScene, Use, WantedUse, use_of
from slackwater.simulation.domain.steady_state import deadlines, moved
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.decision_record import reason_of, trigger_of
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.node_guard import (
    GuardResult,
    GuardState,
    confirmed,
    fast_path,
    guard,
    is_released,
    release,
    without,
)
from slackwater.waterline.registry.metric import MetricFailed, Metrics
from slackwater.waterline.rulebook import Rulebook

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
USUAL_GRACE_SECONDS: Final = 30
"""Of an eviction whose action names none, as in ensurance."""


def moment(milliseconds: int) -> datetime:
    return EPOCH + milliseconds * MILLISECOND


@dataclass(frozen=True, slots=True)
class GuardTerms:
    """How time is cut, and what becomes of pods.

    every_ms         between two looks at a node: what a report is in service
    return_ms        an evicted pod comes back after so long; None: never
    carried_percent  of the work that a limit kept back is done later, as soon as it may
    patient          False: every look is taken, also those that would find the same (for tests: it is the same)
    """

    every_ms: int = 5000
    return_ms: int | None = 3_600_000
    carried_percent: int = 0
    patient: bool = True


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look led to beyond the node, and when the next one can differ (None: not while this scene lasts)."""

    evictions: int
    reliefs: tuple[bool, ...]
    next_at: int | None


@dataclass(slots=True)
class _Effect:
    """Evictions whose relief is still to be seen; `missing` are not gone yet."""

    metric: str
    waterline: float
    missing: set[str]


class NodeRun:
    """See the module's docstring. All times are milliseconds since 1970."""

    def __init__(
        self,
        facts: SceneNode,
        rules: Rulebook,
        metrics: Metrics,
        terms: GuardTerms,
        tally: NodeTally,
        watched: Sequence[TalliedWaterline | None],
    ) -> None:
        """`watched`: the waterlines of the tally, None where one is not for this node."""
        self._facts, self._rules, self._metrics, self._terms = facts, rules, metrics, terms
        self._tally, self._watched = tally, watched
        self._state = GuardState()
        self._scene: UsageScene | None = None
        self._use: Use | None = None
        self._at = self._looked_at = 0
        self._is_quiet = False
        """The last look did nothing: those after it, up to the next that is taken, would have found the same."""
        self._open: Sequence[tuple[GapKey, Decimal | None]] = ()
        self._levels: Sequence[tuple[float, bool] | None] = ()
        self._readings: Mapping[str, tuple[MetricSeries, ...]] = {}
        self._lost_milli = 0
        self._leaving: dict[str, int] = {}
        self._gone: dict[str, int | None] = {}
        """By the uid it came with: when a pod may come back."""
        self._names: dict[str, str] = {}
        """By the uid it came with: its uid since it came back last."""
        self._backlog: dict[str, int] = {}
        """By the uid it came with: hundredths of milli-core-milliseconds that it has to make up for."""
        self._effects: list[_Effect] = []

    @property
    def state(self) -> GuardState:
        """As the last look left it."""
        return self._state

    @property
    def use(self) -> Use | None:
        """What is used now; None while the node is not there."""
        return self._use

    def enter(self, scene: UsageScene | None, at: int) -> None:
        """From now on this is wanted; None: the node is not there, and nobody holds anything on it."""
        self._pass(at)
        self._scene, self._is_quiet = scene, False
        if scene is None:
            self._state, self._use, self._open = GuardState(), None, ()
            self._leaving, self._gone, self._effects = {}, {}, []
            return
        there = {one.pod.uid for one in scene.pods}
        self._gone = {uid: back for uid, back in self._gone.items() if uid in there}
        self._names = {uid: name for uid, name in self._names.items() if uid in there}
        self._backlog = {uid: work for uid, work in self._backlog.items() if uid in there}
        self._arrange()

    def leave(self, at: int) -> None:
        """The scene ends: the looks that were not taken would have found the same."""
        if self._scene is not None and self._looked_at < at and self._is_quiet:
            self._state = moved(self._state, moment(self._looked_at), moment(at))
            self._looked_at = at
        self._pass(at)

    def step(self, at: int, mode: Mode, pool_deadlines: Sequence[datetime]) -> Looked:
        """Take what was used until now for a report, and carry out what is decided on it."""
        scene, now = self._there(), moment(at)
        last = moment(at - self._terms.every_ms)
        if self._is_quiet:
            self._state = moved(self._state, moment(self._looked_at), last)
        self._pass(at)
        before, self._looked_at = self._state, at
        reliefs = self._reliefs()
        view = NodeReadings(
            self._facts.name, now, self._readings, scene.capacity_milli, scene.capacity_bytes, (), self._facts.labels
        )
        calm = fast_path(view, before, self._rules.policies, now, self._metrics)
        begun, acted = 0, False
        if calm is not None:
            self._state, self._open = calm, ()
        else:
            begun, acted = self._guard(view, mode, now, at)
        moves = self._come_and_go(at)
        late = self._makes_up()
        if acted or moves or late or self._backlog:
            self._arrange()
        expects = any(not one.missing for one in self._effects)
        quiet = not (acted or moves or begun or reliefs or expects or late or self._makes_up())
        self._is_quiet = quiet and (calm is before or moved(before, last, EPOCH) == moved(self._state, now, EPOCH))
        return Looked(begun, reliefs, self._next(at, calm is before, pool_deadlines))

    # ---- deciding

    def _guard(self, glimpse: NodeReadings, mode: Mode, now: datetime, at: int) -> tuple[int, bool]:
        """How many evictions began, and whether any quota changed."""
        before, options = self._state, self._rules.options(mode, self._facts.pool)
        if is_released(before, options):
            plan, self._state = release(before, glimpse.capacity_milli or 0)
            self._state, self._open = confirmed(self._state, now), ()
            self._tally.act(Reason.RESTORE_MODE_CHANGED, len(plan.steps))
            return 0, True
        view = self._view(glimpse)
        made = guard(view, before, self._rules.policies, now, options, self._metrics)
        for told in made.cycle.told:
            self._tally.act(reason_of(told, before, made.cycle), len(told.plan.of(told.kind)))
        if made.cycle.analysis.scheduling.event == "disabled":
            self._tally.act(Reason.SCHEDULING_WATERLINE_CROSSED, 0)
        plan = made.cycle.plan
        acted = any(step.changes for step in plan.steps)
        self._state = confirmed(made.state, now) if acted else made.state
        self._open = [
            ((one.kind.value, one.metric, one.because), one.open)
            for one in plan.remaining
            if one.open is None or one.open >= 1
        ]
        return self._evict(plan, made, at), acted

    def _evict(self, plan: Plan, made: GuardResult, at: int) -> int:
        steps = [step for step in plan.of(ActionKind.EVICT) if step.uid not in self._leaving]
        for step in steps:
            grace = USUAL_GRACE_SECONDS if step.grace_seconds is None else step.grace_seconds
            self._leaving[step.uid] = at + grace * 1000
        self._tally.evictions += len(steps)
        for told in made.cycle.told:
            trigger = trigger_of(told, made.cycle)
            if told.carried_out and told.kind is ActionKind.EVICT and trigger is not None:
                uids = {step.uid for step in told.plan.of(ActionKind.EVICT)}
                self._effects.append(_Effect(trigger.metric, trigger.waterline, uids))
        return len(steps)

    def _reliefs(self) -> tuple[bool, ...]:
        """Of evictions that this is the first report after."""
        ready = [one for one in self._effects if not one.missing]
        if not ready:
            return ()
        self._effects = [one for one in self._effects if one.missing]
        found = []
        for one in ready:
            metric, reading = self._metrics.get(one.metric), self._reading(one.metric)
            if metric is not None and reading is not None:
                found.append(not metric.is_above(reading, exact(one.waterline)))
        return tuple(found)

    def _come_and_go(self, at: int) -> bool:
        """Whose grace is over leaves; who was gone long enough is back, if the node takes new pods."""
        moves = False
        for uid in [uid for uid, until in self._leaving.items() if until <= at]:
            del self._leaving[uid]
            for effect in self._effects:
                effect.missing.discard(uid)
            came_as = next((one.wanted.pod.uid for one in self._shares() if one.uid == uid), None)
            if came_as is not None:
                pause = self._terms.return_ms
                self._gone[came_as] = None if pause is None else at + pause
                self._backlog.pop(came_as, None)
                self._state, moves = without(self._state, uid), True
        if self._state.cycle.analyzer.scheduling.is_disabled:
            return moves
        for came_as in [uid for uid, back in self._gone.items() if back is not None and back <= at]:
            del self._gone[came_as]
            past = self._names.get(came_as, came_as).removeprefix(came_as).removeprefix("~")
            self._names[came_as] = f"{came_as}~{int(past or 1) + 1}"
            self._tally.returned += 1
            moves = True
        return moves

    # ---- time

    def _next(self, at: int, nothing_at_all: bool, pool_deadlines: Sequence[datetime]) -> int | None:
        """When another look can find something else; None: not as long as everybody wants the same."""
        now, every = moment(at), self._terms.every_ms
        if not self._terms.patient or not self._is_quiet:
            return at + every
        times = [*self._leaving.values(), *(back for back in self._gone.values() if back is not None)]
        if not nothing_at_all:
            found = (*deadlines(self._state, self._rules, now), *pool_deadlines)
            times += [-(-(one - EPOCH) // MILLISECOND) for one in found]
        due = min((one for one in times if one >= at), default=None)
        return None if due is None else at + max(1, -(-(due - at) // every)) * every

    def _pass(self, at: int) -> None:
        """Count what was used since the last time."""
        span, self._at = at - self._at, at
        if self._scene is None or self._use is None or span <= 0:
            return
        tally, closed = self._tally, self._state.cycle.analyzer.scheduling.is_disabled
        tally.add(self._scene, self._use, span, self._lost_milli, is_closed=closed)
        tally.level(span, self._levels)
        if self._open:
            tally.open(span, self._open)
        if self._terms.carried_percent:
            self._carry(self._use, span)

    # ---- what is used

    def _there(self) -> UsageScene:
        assert self._scene is not None  # noqa: S101 - nobody looks at a node that is not there
        return self._scene

    def _shares(self) -> Iterator[Present]:
        return (share.present for share in self._use.shares) if self._use is not None else iter(())

    def _carry(self, use: Use, span: int) -> None:
        for share in use.shares:
            wanted = share.present.wanted
            made_up = max(0, share.used_milli - wanted.most_milli)
            more = (self._terms.carried_percent * share.held_milli - 100 * made_up) * span
            left = self._backlog.get(wanted.pod.uid, 0) + more
            if left > 0:
                self._backlog[wanted.pod.uid] = left
            else:
                self._backlog.pop(wanted.pod.uid, None)

    def _makes_up(self) -> bool:
        """Whether work that was kept back changes by itself what is used."""
        use = self._use
        if use is None or not self._terms.carried_percent:
            return False
        cut = use.is_cut and bool(self._backlog)
        return cut or any(one.used_milli > one.present.wanted.most_milli for one in use.shares)

    def _arrange(self) -> None:
        scene, ours = self._there(), self._state.by_uid()
        present, self._lost_milli = [], 0
        for wanted in scene.pods:
            if wanted.pod.uid in self._gone:
                self._lost_milli += wanted.most_milli
            else:
                present.append(self._present(wanted, ours))
        self._use = use_of(scene, present)
        self._readings = readings_of(scene, self._use)
        self._levels = [None if one is None else self._level(one) for one in self._watched]

    def _present(self, wanted: WantedUse, ours: Mapping[str, Throttled]) -> Present:
        came_as = wanted.pod.uid
        uid = self._names.get(came_as, came_as)
        limit = ours[uid].limit_milli if uid in ours else None
        later = self._backlog.get(came_as, 0) // (100 * self._terms.every_ms)
        return Present(wanted, uid, limit, wanted.cpu_milli + later)

    def _level(self, one: TalliedWaterline) -> tuple[float, bool] | None:
        reading = self._reading(one.metric)
        return None if reading is None else (float(reading), one.is_above(reading))

    def _reading(self, name: str) -> Decimal | None:
        series = self._readings.get(name)
        if series is None:
            metric, scene = self._metrics.get(name), self._there()
            if metric is None or metric.readings is None:
                return None
            view = NodeReadings(self._facts.name, EPOCH, self._readings, scene.capacity_milli, scene.capacity_bytes)
            try:
                series = metric.read(self._view(view) if metric.needs_pods else view)
            except MetricFailed:
                return None
        values = [value for value in (exact(one.value) for one in series) if not value.is_nan()]
        return max(values) if values else None

    def _view(self, glimpse: NodeReadings) -> NodeReadings:
        """The same with the pods of batch: nobody else is ever asked."""
        scene, use, ours = self._there(), self._use, self._state.by_uid()
        assert use is not None  # noqa: S101 - a node that is there uses something
        pods = tuple(
            pod_of(
                share.present,
                share.used_milli,
                ours.get(share.present.uid),
                is_leaving=share.present.uid in self._leaving,
            )
            for share in use.shares
        )
        best_effort = best_effort_of(scene, use)
        return replace(
            glimpse,
            pods=pods,
            prod_usage_milli=use.prod_milli,
            best_effort_window=best_effort,
            best_effort_last=best_effort,
        )
