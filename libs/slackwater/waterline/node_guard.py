"""Guards one node: takes a view and the last state, returns a plan and the next state. Pure.

Ensurance runs this for every report; a disconnected agent runs it for its own machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from slackwater.decisions.reasons import Mode
from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import QuotaChange
from slackwater.waterline.actuation.memory_high import MemoryChange
from slackwater.waterline.analysis.analyzer import AnalyzerState
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.analysis.sample_counters import RuleState, is_still_calm, judge
from slackwater.waterline.analysis.scheduling import Scheduling, SchedulingStep, under
from slackwater.waterline.cycle import Cycle, CycleState, Options, allowed, run_cycle
from slackwater.waterline.execution import executor
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import Plan, Step
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PERIOD_US
from slackwater.waterline.loop import feedback
from slackwater.waterline.loop.applied_limits import GRAIN_US, Throttled, after
from slackwater.waterline.loop.applied_memory import MemoryThrottled, memory_after
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metrics


@record(frozen=True, slots=True)
class GuardState:
    """The state of a node between two views. `throttles` (CPU) and `memory` have no particular order."""

    throttles: tuple[Throttled, ...] = ()
    cycle: CycleState = field(default_factory=CycleState)
    memory: tuple[MemoryThrottled, ...] = ()

    def limit_of(self, uid: str) -> int | None:
        """Returns the limit set on a pod, None if there is none."""
        return next((throttle.limit_milli for throttle in self.throttles if throttle.uid == uid), None)

    def by_uid(self) -> dict[str, Throttled]:
        return {throttle.uid: throttle for throttle in self.throttles}

    def memory_by_uid(self) -> dict[str, MemoryThrottled]:
        return {one.uid: one for one in self.memory}

    @property
    def limited(self) -> frozenset[str]:
        """Returns the uids of pods with a limit of CPU or memory."""
        return frozenset((*(throttle.uid for throttle in self.throttles), *(one.uid for one in self.memory)))


@record(frozen=True, slots=True)
class GuardResult:
    """A cycle and the state that follows if it is carried out. `forgotten` are throttled pods that
    are gone.
    """

    cycle: Cycle
    state: GuardState
    forgotten: tuple[str, ...] = ()


def guard(
    view: NodeReadings,
    state: GuardState,
    policies: Policies,
    now: datetime,
    options: Options,
    metrics: Metrics = BUILT_IN,
) -> GuardResult:
    """Returns one cycle. The view's quotas are those of `state` (see
    loop.applied_limits.container_of).
    """
    pods = {pod.uid: pod for pod in view.pods}
    present = tuple(throttle for throttle in state.throttles if throttle.uid in pods)
    held = tuple(one for one in state.memory if one.uid in pods)
    forgotten = tuple(sorted(uid for uid in state.limited if uid not in pods))
    cycle = run_cycle(view, policies, state.cycle, now, options=options, metrics=metrics)
    memory = memory_after(held, cycle.plan, pods, now)
    return GuardResult(cycle, GuardState(after(present, cycle.plan, pods), cycle.state, memory=memory), forgotten)


def fast_path(
    view: NodeReadings, state: GuardState, policies: Policies, now: datetime, metrics: Metrics = BUILT_IN
) -> GuardState | None:
    """Returns the next state if no action is possible, whatever the pods are: no rule is triggered,
    no limit is in force, no entry expires. None: run the full cycle. The view needs no pods, so a
    calm report builds no candidates.
    """
    cycle = state.cycle
    if state.throttles or state.memory or cycle.analyzer.scheduling.is_disabled or cycle.loop.recorded:
        return None
    if cycle.executor.underway or cycle.executor.refused or cycle.executor.begun_at:
        return None
    if any(effect.is_open for effect in cycle.loop.effects):
        return None
    rules = _calm_rules(view, state, policies, now, metrics)
    if rules is None or rules == cycle.analyzer.rules:
        return None if rules is None else state
    return replace(state, cycle=replace(cycle, analyzer=replace(cycle.analyzer, rules=rules)))


def concerned(
    view: NodeReadings, state: GuardState, policies: Policies, now: datetime, metrics: Metrics = BUILT_IN
) -> frozenset[str] | None:
    """Returns the uids a cycle can affect while no rule is triggered: throttled or remembered pods.
    None: any pod. The view needs no pods.
    """
    if _calm_rules(view, state, policies, now, metrics) is None:
        return None
    known = state.cycle.executor
    leaving, left_alone = (eviction.uid for eviction in known.underway), (refusal.uid for refusal in known.refused)
    return frozenset((*state.limited, *leaving, *left_alone))


def _calm_rules(
    view: NodeReadings, state: GuardState, policies: Policies, now: datetime, metrics: Metrics
) -> tuple[RuleState, ...] | None:
    """Returns the rules' next counts; None if one is triggered, or cannot be read without pods."""
    known = {rule.rule: rule for rule in state.cycle.analyzer.rules}
    actions = {action.name for action in policies.actions}
    counted = []
    for node in policies.nodes:
        if node.selector is not None and not node.selector.matches(view.labels):
            continue
        for rule in node.rules:
            metric = metrics.get(rule.metric)
            if metric is not None and metric.needs_pods:
                return None
            if rule.action in actions:
                state_before = known.get(rule.key) or RuleState(rule.key)
                if is_still_calm(rule, metric, view, state_before):
                    counted.append(state_before)
                    continue
                verdict = judge(rule, metric, view, state_before, now)
                if verdict.triggered:
                    return None
                counted.append(verdict.state)
    return tuple(counted)


def release(state: GuardState, capacity_milli: int) -> tuple[Plan, GuardState]:
    """Returns the plan that restores every limit at once because the mode forbids them."""
    quotas = (
        _back(throttle, capacity_milli) for throttle in sorted(state.throttles, key=lambda throttle: throttle.uid)
    )
    steps = (*quotas, *(_memory_back(one) for one in sorted(state.memory, key=lambda one: one.uid)))
    loop = replace(state.cycle.loop, recorded=(), pending_since=None)
    return Plan(steps=steps), replace(state, throttles=(), memory=(), cycle=replace(state.cycle, loop=loop))


def _back(throttled: Throttled, capacity_milli: int) -> Step:
    original = throttled.original_limit_milli
    full = capacity_milli if original is None else min(original, capacity_milli)
    change = QuotaChange(
        throttled.uid,
        "main",
        throttled.limit_milli * GRAIN_US,
        None if original is None else original * GRAIN_US,
        PERIOD_US,
        exact(max(0, full - throttled.limit_milli)),
    )
    return Step(ActionKind.RESTORE, throttled.uid, throttled.name, "", (), (("cpu", change.amount_milli),), (change,))


def _memory_back(throttled: MemoryThrottled) -> Step:
    top = throttled.original_high_bytes
    amount = exact(0 if top is None else max(0, top - throttled.high_bytes))
    change = MemoryChange(throttled.uid, throttled.high_bytes, top, amount)
    return Step(ActionKind.RESTORE_MEMORY, throttled.uid, throttled.name, "", (), (("memory", amount),), memory=change)


def is_released(state: GuardState, options: Options) -> bool:
    """Returns whether limits are in force that the mode does not allow."""
    return options.mode is Mode.OBSERVE and bool(state.throttles or state.memory)


def described_anew(state: GuardState) -> GuardState:
    """Returns the state of a node whose description changed: its throttles may help now."""
    loop = replace(state.cycle.loop, effects=())
    return replace(state, cycle=replace(state.cycle, loop=loop))


def under_new_rules(state: GuardState) -> GuardState:
    """Returns the state with counts reset; limits, cool-downs, evictions under way and a cordon stay, and what is
    known of throttles of rules that stay the same (RuleEffect.basis).
    """
    cycle = state.cycle
    analyzer = AnalyzerState((), cycle.analyzer.scheduling)
    effects = tuple(effect.interrupted() for effect in cycle.loop.effects)
    return replace(
        state,
        cycle=replace(cycle, analyzer=analyzer, loop=replace(cycle.loop, recorded=(), effects=effects)),
    )


def scheduling_under(
    state: GuardState, policies: Policies, options: Options, labels: Mapping[str, str]
) -> SchedulingStep:
    """Returns whether a cordoned node stays so under other rules, in this mode."""
    return under(state.cycle.analyzer.scheduling, allowed(policies, options.mode), labels)


def with_scheduling(state: GuardState, scheduling: Scheduling) -> GuardState:
    analyzer = replace(state.cycle.analyzer, scheduling=scheduling)
    return replace(state, cycle=replace(state.cycle, analyzer=analyzer))


def confirmed(state: GuardState, observed_at: datetime) -> GuardState:
    """Returns the state after the node carried out every intent, its last write at
    `observed_at`.
    """
    return replace(state, cycle=replace(state.cycle, loop=feedback.confirmed(state.cycle.loop, observed_at)))


def refused(state: GuardState, uid: str, in_force_milli: int | None, now: datetime, limits: ActionLimits) -> GuardState:
    """Returns the state after a failed write of this pod's limit; the limit read back is in force
    (None = no limit).
    """
    kept = tuple(
        replace(throttle, limit_milli=in_force_milli or throttle.limit_milli) if throttle.uid == uid else throttle
        for throttle in state.throttles
        if throttle.uid != uid or in_force_milli is not None
    )
    known = executor.refused(
        state.cycle.executor, uid, ActionKind.THROTTLE, "the node could not write its limit", now, limits
    )
    return replace(state, throttles=kept, cycle=replace(state.cycle, executor=known))


def memory_refused(
    state: GuardState, uid: str, in_force_bytes: int | None, now: datetime, limits: ActionLimits
) -> GuardState:
    """Returns the state after a failed write of this pod's memory limit; the limit read back is in force (None: the
    original).
    """
    kept = tuple(
        replace(one, high_bytes=in_force_bytes or one.high_bytes) if one.uid == uid else one
        for one in state.memory
        if one.uid != uid or (in_force_bytes is not None and in_force_bytes != one.original_high_bytes)
    )
    because = "the node could not write its memory limit"
    known = executor.refused(state.cycle.executor, uid, ActionKind.THROTTLE_MEMORY, because, now, limits)
    return replace(state, memory=kept, cycle=replace(state.cycle, executor=known))


def without(state: GuardState, uid: str) -> GuardState:
    """Returns the state without an ended pod's limits. Its eviction stays credited until a view
    shows that it is gone.
    """
    return replace(
        state,
        throttles=tuple(throttle for throttle in state.throttles if throttle.uid != uid),
        memory=tuple(one for one in state.memory if one.uid != uid),
    )


def evicted_alone(state: GuardState, at: datetime) -> GuardState:
    """Returns the state with an eviction by the disconnected agent, which counts towards the node's
    hourly limit. Idempotent.
    """
    known = state.cycle.executor
    if at in known.begun_at:
        return state
    return replace(state, cycle=replace(state.cycle, executor=replace(known, begun_at=(*known.begun_at, at))))


def eviction_failed(state: GuardState, uid: str, because: str, now: datetime, limits: ActionLimits) -> GuardState:
    """Returns the state after an eviction was refused or failed: it is no longer credited, and the
    next candidate is tried.
    """
    known = executor.refused(state.cycle.executor, uid, ActionKind.EVICT, because, now, limits)
    return replace(state, cycle=replace(state.cycle, executor=known))
