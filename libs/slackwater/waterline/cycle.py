"""One whole cycle of a node: takes readings, policies, state and time; returns demands, plan and
the next state. Pure.

With a loop policy throttling is a closed loop: no decision uses a sample that cannot show the last
change, limits rise slowly, and each decision is recorded once (slackwater.waterline.loop). Without
one each cycle is independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.model.records import record
from slackwater.waterline.analysis.analyzer import Analysis, AnalyzerState, Excess, Ignored, analyse, is_throttled
from slackwater.waterline.analysis.demands import ActionKind, Restorable, beyond_of
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.execution.evict import Attempt
from slackwater.waterline.execution.executor import execute, preview
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import ExecutorState, Plan, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_memory import MemoryBackoff, loop_after, within_backoff
from slackwater.waterline.loop.feedback import (
    Allowance,
    Crossing,
    LoopPolicy,
    LoopState,
    after_calm,
    after_change,
    after_trigger,
    allowance,
    is_demand_gone,
    is_new_demand,
    prod_demand_milli,
    unsettled,
)
from slackwater.waterline.loop.restore import RestoreStep, undo_throttles
from slackwater.waterline.loop.usefulness import RuleEffect, ThrottleSample, UselessThrottle, judge_throttles
from slackwater.waterline.policies.values import Policies, PolicyAction
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metrics

_ASKED: Final = (ActionKind.THROTTLE, ActionKind.THROTTLE_MEMORY, ActionKind.EVICT)


@record(frozen=True, slots=True)
class RecordedPlan:
    """One decision of a cycle. `carried_out` False: recorded only, for a preview or without
    candidates.
    """

    kind: ActionKind
    plan: Plan
    carried_out: bool


def plans_to_record(plan: Plan, would: Plan, state: LoopState) -> tuple[tuple[RecordedPlan, ...], LoopState]:
    """Returns the decisions to record, and the state that remembers them."""
    known, found = set(state.told), [RecordedPlan(kind, plan, True) for kind in ActionKind if plan.of(kind)]
    for kind in _ASKED:
        if not plan.of(kind) and _is_open(plan, kind) and (mark := f"open/{kind}") not in known:
            known.add(mark)
            found.append(RecordedPlan(kind, plan, False))
        named = {f"would/{kind}/{step.uid}" for step in would.of(kind)}
        if not named and _is_open(would, kind):
            named = {f"would/{kind}/"}
        if named - known:
            known |= named
            found.append(RecordedPlan(kind, would, False))
    return tuple(found), replace(state, told=tuple(sorted(known)))


def _is_open(plan: Plan, kind: ActionKind) -> bool:
    """Returns whether a gap of at least one unit stays without candidates, or a gap is unknown."""
    return any(one.kind is kind and (one.open is None or one.open >= 1) for one in plan.remaining)


def cordons_to_record(rules: tuple[str, ...], state: LoopState) -> tuple[tuple[str, ...], LoopState]:
    """Returns the rules that would cordon the node and were not reported in this episode, and the
    state that remembers them.
    """
    known = set(state.told)
    new = tuple(rule for rule in rules if f"would/close/{rule}" not in known)
    if not new:
        return (), state
    return new, replace(state, told=tuple(sorted(known | {f"would/close/{rule}" for rule in new})))


@record(frozen=True, slots=True)
class CycleState:
    """The state of a node between two cycles."""

    analyzer: AnalyzerState = field(default_factory=AnalyzerState)
    executor: ExecutorState = field(default_factory=ExecutorState)
    loop: LoopState = field(default_factory=LoopState)
    memory: MemoryBackoff = field(default_factory=MemoryBackoff)


@record(frozen=True, slots=True)
class Options:
    """`mode` is the pool's current autonomy: actions it forbids are planned all the same, and
    reported in `would`. `loop`: the closed loop's parameters; None: each cycle is independent.
    """

    mode: Mode = Mode.EVICT
    excess: Excess = field(default_factory=Excess)
    limits: ActionLimits = field(default_factory=ActionLimits)
    loop: LoopPolicy | None = None


@record(frozen=True, slots=True)
class Cycle:
    """The result of a cycle. `plan` is to be carried out; `would` holds what previews and the mode
    prevent. `held_because`: why a possible decision was held back. `recorded` are the decisions to
    record, `would_close` the rules that would cordon the node and are to be reported now.
    """

    analysis: Analysis
    plan: Plan
    would: Plan
    state: CycleState
    held_because: str = ""
    recorded: tuple[RecordedPlan, ...] = ()
    would_close: tuple[str, ...] = ()
    undone: tuple[UselessThrottle, ...] = ()
    """Rules whose limits this cycle undoes, because they had no effect."""
    left_to_weights: tuple[str, ...] = ()
    """Rules whose throttles this cycle leaves to CPU weights; `would` holds them."""


def run_cycle(
    view: NodeReadings,
    policies: Policies,
    before: CycleState,
    now: datetime,
    *,
    options: Options | None = None,
    metrics: Metrics = BUILT_IN,
    attempt: Attempt | None = None,
) -> Cycle:
    """Returns the cycle of one view."""
    given = options or Options()
    analysis = _within(
        given.mode, analyse(view, allowed(policies, given.mode), metrics, before.analyzer, now, given.excess)
    )
    analysis = within_backoff(analysis, before.memory, now)
    if given.loop is not None:
        return _steadied(view, analysis, before, now, given, given.loop, attempt, policies.actions)
    plan = execute(analysis, before.executor, given.limits, now, attempt)
    would = preview(analysis, before.executor, given.limits, now, plan)
    memory = loop_after(before.memory, analysis, plan, now)
    return Cycle(analysis, plan, would, CycleState(analysis.state, plan.state, before.loop, memory))


def _steadied(
    view: NodeReadings,
    analysis: Analysis,
    before: CycleState,
    now: datetime,
    given: Options,
    policy: LoopPolicy,
    attempt: Attempt | None,
    actions: Sequence[PolicyAction],
) -> Cycle:
    """Returns the cycle within a closed loop. While any rule is triggered, nothing is restored."""
    hold = unsettled(view, before.loop, policy, now)
    is_limited = any(map(is_throttled, view.pods))
    is_damped = before.loop.damping.is_waiting(policy.damping, now)
    sample = ThrottleSample(view, prod_demand_milli(view), is_limited, hold is None, now, is_damped)
    effects = judge_throttles(before.loop.effects, analysis.verdicts, sample, policy.usefulness, actions)
    state = replace(before.loop, effects=effects)
    analysis, left = _left_to_weights(analysis, effects, now)
    analysis = _without_suspended(analysis, effects, now)
    undone = _undone(effects, analysis, now) if hold is None and is_limited else ()
    is_new = False
    if analysis.throttles:
        crossing = _crossing(analysis, view, effects)
        is_new = is_new_demand(state, policy, sample.demand_milli, crossing, now)
        state = after_trigger(view, state, policy, now, fresh=hold is None, crossing=crossing)
    elif analysis.verdicts and all(map(_is_at_rest, analysis.verdicts)):
        state = replace(state, told=())
    if hold is None and not analysis.throttles and is_limited:
        state = after_calm(view, state)
    capacity = view.capacity_milli or 0
    of_a_pod = policy.smallest_of_a_pod_milli(capacity)
    limits = replace(given.limits, smallest_milli=policy.smallest_milli(capacity), smallest_of_a_pod_milli=of_a_pod)

    def allow(one: Restorable) -> Allowance:
        return allowance(view, state, policy, one.headroom, one.cool_down_seconds, now)

    plan = execute(
        _acted_on(analysis, hold), before.executor, limits, now, attempt, RestoreStep(allow, capacity, of_a_pod)
    )
    if undone:
        plan = replace(plan, steps=(*_not_restores(plan), *undo_throttles(_undoable(view, plan), capacity)))
    would = preview(analysis, before.executor, limits, now, plan)
    recorded, state = plans_to_record(plan, would, state)
    would_close, state = cordons_to_record(analysis.would_close, state)
    kinds = {step.kind for step in plan.steps if step.changes}
    if kinds:
        falls, rises = ActionKind.THROTTLE in kinds, ActionKind.RESTORE in kinds
        gone = bool(undone) or is_demand_gone(view, state, policy)
        state = after_change(state, policy, now, falls=falls, rises=rises, gone=gone, is_new=is_new)
    memory = loop_after(before.memory, analysis, plan, now)
    after = CycleState(analysis.state, plan.state, _acted(state, plan, view, now), memory)
    return Cycle(analysis, plan, would, after, hold or "", recorded, would_close, undone, left)


def _undone(effects: Sequence[RuleEffect], analysis: Analysis, now: datetime) -> tuple[UselessThrottle, ...]:
    """Returns the findings to carry out. Limits of another rule that is triggered or cools down stay, and so do limits
    that help another rule or whose trial for it is under way: it would set them again at once."""
    suspended = {one.rule: one.finding for one in effects if one.is_suspended(now) and one.finding is not None}
    others = (one for one in analysis.verdicts if one.rule.key not in suspended and not one.rule.is_preview)
    if analysis.throttles or any(one.triggered or not one.is_over(now) for one in others):
        return ()
    if any(one.rule not in suspended and (one.has_helped or one.is_on_trial) for one in effects):
        return ()
    return tuple(suspended.values())


def _undoable(view: NodeReadings, plan: Plan) -> list[PodUse]:
    """Returns the pods whose limits can be written: those of a failed write are tried again later."""
    left_alone = {one.uid for one in plan.state.refused if one.kind is ActionKind.THROTTLE}
    return [pod for pod in view.pods if pod.is_active and not pod.is_terminating and pod.uid not in left_alone]


def _not_restores(plan: Plan) -> tuple[Step, ...]:
    return tuple(step for step in plan.steps if step.kind is not ActionKind.RESTORE)


def _left_to_weights(
    analysis: Analysis, effects: Sequence[RuleEffect], now: datetime
) -> tuple[Analysis, tuple[str, ...]]:
    """Returns the analysis in which throttles that CPU weights make needless for now are previews, and their rules.

    Evictions for the same metric, which come after throttles, wait as well. A demand without candidates stays as it is,
    because weights do nothing about it.
    """
    waiting = {one.rule: one for one in effects if one.is_waiting(now)}
    held = {one.rule for one in effects if one.sets_no_limit(now)}
    previews = {one.rule.key for one in analysis.verdicts if one.rule.is_preview}
    asked = (*analysis.throttles, *(one for one in analysis.previews if one.kind is ActionKind.THROTTLE))
    left = [one for one in asked if one.candidates and waiting.keys() & set(one.rules) and held >= set(one.rules)]
    if not left:
        return analysis, ()
    metrics = {one.metric.name for one in left}
    evicting = (*analysis.evictions, *(one for one in analysis.previews if one.kind is ActionKind.EVICT))
    late = [one for one in evicting if one.metric.name in metrics]
    until = max(one.waits_until for one in waiting.values() if one.waits_until is not None)
    because = f"CPU weights protect prod: no eviction before limits were tried, from {until:%H:%M:%S} UTC on"
    ignored = [Ignored(key, because) for demand in late for key in demand.rules]
    moved = tuple(one for one in left if not previews & set(one.rules))
    found = replace(
        analysis,
        throttles=tuple(one for one in analysis.throttles if one not in left),
        evictions=tuple(one for one in analysis.evictions if one not in late),
        previews=(*moved, *(one for one in analysis.previews if one not in late)),
        ignored=tuple(sorted((*analysis.ignored, *ignored), key=lambda one: one.rule)),
    )
    return found, tuple(sorted({key for one in left for key in one.rules}))


def _without_suspended(analysis: Analysis, effects: Sequence[RuleEffect], now: datetime) -> Analysis:
    """Returns the analysis without throttles that only suspended rules request. Their evictions stay."""
    until = {one.rule: one.until for one in effects if one.is_suspended(now)}
    if not until:
        return analysis
    because = "its throttles had no effect: no limits before {:%H:%M:%S} UTC"
    asked = {key for demand in analysis.throttles for key in demand.rules}
    ignored = [Ignored(key, because.format(at)) for key, at in until.items() if key in asked]
    return replace(
        analysis,
        throttles=tuple(one for one in analysis.throttles if not until.keys() >= set(one.rules)),
        ignored=tuple(sorted((*analysis.ignored, *ignored), key=lambda one: one.rule)),
    )


def _is_at_rest(verdict: RuleVerdict) -> bool:
    """Returns whether a rule is calm. An unmeasured metric that was not above before is in no
    episode and does not delay the next report.
    """
    return verdict.calm or (verdict.reading is None and not verdict.state.in_episode)


def _acted_on(analysis: Analysis, hold: str | None) -> Analysis:
    if hold is not None:
        return replace(analysis, throttles=(), evictions=(), restorable=())
    return replace(analysis, restorable=()) if analysis.throttles else analysis


def _crossing(analysis: Analysis, view: NodeReadings, effects: Sequence[RuleEffect]) -> Crossing:
    """Returns by how much the waterlines are crossed, over the rules that request throttling, and since when."""
    asked = {key for demand in analysis.throttles for key in demand.rules}
    rules = [one for one in analysis.verdicts if one.rule.key in asked]
    return Crossing(
        max((beyond_of(one, view) for one in rules), default=ZERO),
        max((one.rule.cool_down_seconds for one in rules), default=0.0),
        min((one.crossing.since for one in effects if one.rule in asked and one.crossing is not None), default=None),
    )


def _acted(state: LoopState, plan: Plan, view: NodeReadings, now: datetime) -> LoopState:
    """Returns the state after the plan. Changed quotas await confirmation; an eviction is credited
    until it ends, and is not waited for.
    """
    changed = [step for step in plan.steps if step.changes]
    if not changed:
        return state
    after = replace(state, pending_since=now, settled_at=None, used_lately_milli=())
    if not any(step.kind is ActionKind.RESTORE for step in changed):
        return after
    return replace(after, last_raise_at=now, demand_at_raise_milli=prod_demand_milli(view))


def _within(mode: Mode, analysis: Analysis) -> Analysis:
    """Returns the analysis with evictions that the mode forbids turned into previews."""
    if mode is Mode.EVICT:
        return analysis
    return replace(analysis, evictions=(), previews=(*analysis.previews, *analysis.evictions))


def allowed(policies: Policies, mode: Mode) -> Policies:
    """Returns the policies that a mode allows. In mode observe no rule acts: the node stays
    uncordoned, and limits are restored.
    """
    if mode is not Mode.OBSERVE:
        return policies
    nodes = (replace(one, rules=tuple(replace(rule, is_preview=True) for rule in one.rules)) for one in policies.nodes)
    return replace(policies, nodes=tuple(nodes))
