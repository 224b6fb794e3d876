"""Replays one node under one policy, scene by scene, with a control step at fixed intervals. Pure.

A step calls slackwater.waterline.node_guard.guard, or its fast path if nothing happens, as ensurance does for a report.
A limit applies from its step on, and the node confirms it at once. An evicted pod runs until its grace period ends and
returns later as a new pod, if the node then accepts new pods.
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
from slackwater.simulation.domain.scenes import PodDemand, Present, SceneNode, UsageScene, Use, use_of
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
"""Grace period of an eviction whose action names none, as in ensurance."""


def moment(milliseconds: int) -> datetime:
    return EPOCH + milliseconds * MILLISECOND


@dataclass(frozen=True, slots=True)
class GuardTerms:
    """The control period, and how pods react.

    every_ms         interval of the control steps, which are reports in service
    return_ms        time after which an evicted pod returns; None: never
    carried_percent  share of the work that a limit prevented and that is done as soon as limits allow
    patient          skip steps that cannot have another result (False only in tests, which compare both)
    """

    every_ms: int = 5000
    return_ms: int | None = 3_600_000
    carried_percent: int = 0
    patient: bool = True


@dataclass(frozen=True, slots=True)
class StepResult:
    """The effects of a step on the pool, and the time of the next step that can have another result.

    None: no later step in this scene can.
    """

    evictions: int
    reliefs: tuple[bool, ...]
    next_at: int | None


@dataclass(slots=True)
class _Effect:
    """Evictions whose relief is still to be measured; `missing` are pods that have not ended yet."""

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
        """`watched` are the waterlines of the tally; None for those that do not apply to this node."""
        self._facts, self._rules, self._metrics, self._terms = facts, rules, metrics, terms
        self._tally, self._watched = tally, watched
        self._state = GuardState()
        self._scene: UsageScene | None = None
        self._use: Use | None = None
        self._at = self._stepped_at = 0
        self._is_quiet = False
        """True if the last step did nothing, so that the steps up to the next scheduled one can be skipped."""
        self._open: Sequence[tuple[GapKey, Decimal | None]] = ()
        self._levels: Sequence[tuple[float, bool] | None] = ()
        self._readings: Mapping[str, tuple[MetricSeries, ...]] = {}
        self._lost_milli = 0
        self._leaving: dict[str, int] = {}
        self._gone: dict[str, int | None] = {}
        """By original uid: the time at which an evicted pod may return."""
        self._names: dict[str, str] = {}
        """By original uid: the uid since the last return."""
        self._backlog: dict[str, int] = {}
        """By original uid: deferred work in hundredths of milli-core-milliseconds."""
        self._effects: list[_Effect] = []

    @property
    def state(self) -> GuardState:
        """The state after the last step."""
        return self._state

    @property
    def use(self) -> Use | None:
        """The current usage; None while the node is absent."""
        return self._use

    def enter(self, scene: UsageScene | None, at: int) -> None:
        """Starts a scene; None: the node is absent, and its limits and evictions are discarded."""
        self._pass(at)
        self._scene, self._is_quiet = scene, False
        if scene is None:
            self._state, self._use, self._open = GuardState(), None, ()
            self._leaving, self._gone, self._effects = {}, {}, []
            return
        there = {demand.pod.uid for demand in scene.pods}
        self._gone = {uid: back for uid, back in self._gone.items() if uid in there}
        self._names = {uid: name for uid, name in self._names.items() if uid in there}
        self._backlog = {uid: work for uid, work in self._backlog.items() if uid in there}
        self._arrange()

    def leave(self, at: int) -> None:
        """Ends the scene and accounts for the skipped steps."""
        if self._scene is not None and self._stepped_at < at and self._is_quiet:
            self._state = moved(self._state, moment(self._stepped_at), moment(at))
            self._stepped_at = at
        self._pass(at)

    def step(self, at: int, mode: Mode, pool_deadlines: Sequence[datetime]) -> StepResult:
        """Decides on the usage so far, as on a report, and carries the decision out."""
        scene, now = self._there(), moment(at)
        last = moment(at - self._terms.every_ms)
        if self._is_quiet:
            self._state = moved(self._state, moment(self._stepped_at), last)
        self._pass(at)
        before, self._stepped_at = self._state, at
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
        expects = any(not effect.missing for effect in self._effects)
        quiet = not (acted or moves or begun or reliefs or expects or late or self._makes_up())
        self._is_quiet = quiet and (calm is before or moved(before, last, EPOCH) == moved(self._state, now, EPOCH))
        return StepResult(begun, reliefs, self._next(at, calm is before, pool_deadlines))

    # ---- decisions

    def _guard(self, readings: NodeReadings, mode: Mode, now: datetime, at: int) -> tuple[int, bool]:
        """Returns the number of evictions started, and whether a quota changed."""
        before, options = self._state, self._rules.options(mode, self._facts.pool)
        if is_released(before, options):
            plan, self._state = release(before, readings.capacity_milli or 0)
            self._state, self._open = confirmed(self._state, now), ()
            self._tally.act(Reason.RESTORE_MODE_CHANGED, len(plan.steps))
            return 0, True
        view = self._view(readings)
        made = guard(view, before, self._rules.policies, now, options, self._metrics)
        for decision in made.cycle.recorded:
            self._tally.act(reason_of(decision, before, made.cycle), len(decision.plan.of(decision.kind)))
        if made.cycle.analysis.scheduling.event == "disabled":
            self._tally.act(Reason.SCHEDULING_WATERLINE_CROSSED, 0)
        plan = made.cycle.plan
        acted = any(step.changes for step in plan.steps)
        self._state = confirmed(made.state, now) if acted else made.state
        self._open = [
            ((gap.kind.value, gap.metric, gap.because), gap.open)
            for gap in plan.remaining
            if gap.open is None or gap.open >= 1
        ]
        return self._evict(plan, made, at), acted

    def _evict(self, plan: Plan, made: GuardResult, at: int) -> int:
        steps = [step for step in plan.of(ActionKind.EVICT) if step.uid not in self._leaving]
        for step in steps:
            grace = USUAL_GRACE_SECONDS if step.grace_seconds is None else step.grace_seconds
            self._leaving[step.uid] = at + grace * 1000
        self._tally.evictions += len(steps)
        for decision in made.cycle.recorded:
            trigger = trigger_of(decision, made.cycle)
            if decision.carried_out and decision.kind is ActionKind.EVICT and trigger is not None:
                uids = {step.uid for step in decision.plan.of(ActionKind.EVICT)}
                self._effects.append(_Effect(trigger.metric, trigger.waterline, uids))
        return len(steps)

    def _reliefs(self) -> tuple[bool, ...]:
        """Returns, for evictions whose pods have all ended since the last step, whether the metric is below again."""
        ready = [effect for effect in self._effects if not effect.missing]
        if not ready:
            return ()
        self._effects = [effect for effect in self._effects if effect.missing]
        reliefs = []
        for effect in ready:
            metric, reading = self._metrics.get(effect.metric), self._reading(effect.metric)
            if metric is not None and reading is not None:
                reliefs.append(not metric.is_above(reading, exact(effect.waterline)))
        return tuple(reliefs)

    def _come_and_go(self, at: int) -> bool:
        """Removes pods whose grace period has ended, and returns evicted pods whose pause is over, if the node accepts
        new pods. Returns whether any pod changed."""
        moves = False
        for uid in [uid for uid, until in self._leaving.items() if until <= at]:
            del self._leaving[uid]
            for effect in self._effects:
                effect.missing.discard(uid)
            original_uid = next((present.demand.pod.uid for present in self._shares() if present.uid == uid), None)
            if original_uid is not None:
                pause = self._terms.return_ms
                self._gone[original_uid] = None if pause is None else at + pause
                self._backlog.pop(original_uid, None)
                self._state, moves = without(self._state, uid), True
        if self._state.cycle.analyzer.scheduling.is_disabled:
            return moves
        for original_uid in [uid for uid, back in self._gone.items() if back is not None and back <= at]:
            del self._gone[original_uid]
            past = self._names.get(original_uid, original_uid).removeprefix(original_uid).removeprefix("~")
            self._names[original_uid] = f"{original_uid}~{int(past or 1) + 1}"
            self._tally.returned += 1
            moves = True
        return moves

    # ---- time

    def _next(self, at: int, nothing_at_all: bool, pool_deadlines: Sequence[datetime]) -> int | None:
        """Returns the time of the next step that can have another result; None: none while demand is constant."""
        now, every = moment(at), self._terms.every_ms
        if not self._terms.patient or not self._is_quiet:
            return at + every
        times = [*self._leaving.values(), *(back for back in self._gone.values() if back is not None)]
        if not nothing_at_all:
            ends = (*deadlines(self._state, self._rules, now), *pool_deadlines)
            times += [-(-(end - EPOCH) // MILLISECOND) for end in ends]
        due = min((time for time in times if time >= at), default=None)
        return None if due is None else at + max(1, -(-(due - at) // every)) * every

    def _pass(self, at: int) -> None:
        """Adds the usage since the last call to the tally."""
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

    # ---- usage

    def _there(self) -> UsageScene:
        assert self._scene is not None  # noqa: S101 - an absent node has no steps
        return self._scene

    def _shares(self) -> Iterator[Present]:
        return (share.present for share in self._use.shares) if self._use is not None else iter(())

    def _carry(self, use: Use, span: int) -> None:
        for share in use.shares:
            demand = share.present.demand
            made_up = max(0, share.used_milli - demand.most_milli)
            more = (self._terms.carried_percent * share.held_milli - 100 * made_up) * span
            left = self._backlog.get(demand.pod.uid, 0) + more
            if left > 0:
                self._backlog[demand.pod.uid] = left
            else:
                self._backlog.pop(demand.pod.uid, None)

    def _makes_up(self) -> bool:
        """Returns whether deferred work changes the usage without a decision."""
        use = self._use
        if use is None or not self._terms.carried_percent:
            return False
        cut = use.is_cut and bool(self._backlog)
        return cut or any(share.used_milli > share.present.demand.most_milli for share in use.shares)

    def _arrange(self) -> None:
        scene, ours = self._there(), self._state.by_uid()
        present, self._lost_milli = [], 0
        for demand in scene.pods:
            if demand.pod.uid in self._gone:
                self._lost_milli += demand.most_milli
            else:
                present.append(self._present(demand, ours))
        self._use = use_of(scene, present)
        self._readings = readings_of(scene, self._use)
        self._levels = [None if waterline is None else self._level(waterline) for waterline in self._watched]

    def _present(self, demand: PodDemand, ours: Mapping[str, Throttled]) -> Present:
        original_uid = demand.pod.uid
        uid = self._names.get(original_uid, original_uid)
        limit = ours[uid].limit_milli if uid in ours else None
        later = self._backlog.get(original_uid, 0) // (100 * self._terms.every_ms)
        return Present(demand, uid, limit, demand.cpu_milli + later)

    def _level(self, waterline: TalliedWaterline) -> tuple[float, bool] | None:
        reading = self._reading(waterline.metric)
        return None if reading is None else (float(reading), waterline.is_above(reading))

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
        values = [value for value in (exact(sample.value) for sample in series) if not value.is_nan()]
        return max(values) if values else None

    def _view(self, readings: NodeReadings) -> NodeReadings:
        """Adds the batch pods, which are the only candidates for actions."""
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
            readings,
            pods=pods,
            prod_usage_milli=use.prod_milli,
            best_effort_window=best_effort,
            best_effort_last=best_effort,
        )
