"""One whole cycle of a node: takes readings, policies, state and time; returns demands, plan and
the next state. Pure.

A cycle is a list of stages, each from what was given and the cycle so far to the cycle with one thing more:
readings → verdicts and demands → plan → records → next state. In the closed loop (with a loop policy) no decision uses
a sample that cannot show the last change, limits rise slowly, and each decision is recorded once
(slackwater.waterline.loop). Without one each cycle is independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from datetime import datetime
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.model.records import record
from slackwater.waterline.analysis.analyzer import Analysis, AnalyzerState, Excess, analyse, is_throttled
from slackwater.waterline.analysis.demands import ActionKind, Restorable, beyond_of
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.execution.evict import Attempt
from slackwater.waterline.execution.executor import execute, preview
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import ExecutorState, Plan
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
from slackwater.waterline.loop.held_demands import left_to_weights, throttles_to_undo, without_suspended
from slackwater.waterline.loop.recorded_once import RecordedPlan, cordons_to_record, plans_to_record
from slackwater.waterline.loop.restore import RestoreStep, undo_throttles
from slackwater.waterline.loop.usefulness import ThrottleSample, UselessThrottle, judge_throttles
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metrics


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
    reported in `dry_run`. `loop`: the closed loop's parameters; None: each cycle is independent.
    """

    mode: Mode = Mode.EVICT
    excess: Excess = field(default_factory=Excess)
    limits: ActionLimits = field(default_factory=ActionLimits)
    loop: LoopPolicy | None = None


@record(frozen=True, slots=True)
class Cycle:
    """The result of a cycle. `plan` is to be carried out; `dry_run` holds what previews and the mode
    prevent. `held_because`: why a possible decision was held back. `recorded` are the decisions to
    record, `would_close` the rules that would cordon the node and are to be reported now.
    """

    analysis: Analysis
    state: CycleState
    plan: Plan = field(default_factory=Plan)
    dry_run: Plan = field(default_factory=Plan)
    held_because: str = ""
    recorded: tuple[RecordedPlan, ...] = ()
    would_close: tuple[str, ...] = ()
    undone: tuple[UselessThrottle, ...] = ()
    """Rules whose limits this cycle undoes, because they had no effect."""
    left_to_weights: tuple[str, ...] = ()
    """Rules whose throttles this cycle leaves to CPU weights; `dry_run` holds them."""


@record(frozen=True, slots=True)
class CycleInputs:
    """What every stage reads. `sample` is the view as the closed loop judges it; `limits` include its smallest
    changes.
    """

    view: NodeReadings
    policies: Policies
    before: CycleState
    now: datetime
    metrics: Metrics
    attempt: Attempt | None
    options: Options
    loop: LoopPolicy
    sample: ThrottleSample
    limits: ActionLimits


Stage = Callable[[CycleInputs, Cycle], Cycle]


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
    loop = given.loop or LoopPolicy()
    capacity_milli = view.capacity_milli or 0
    limits = given.limits
    if given.loop is not None:
        limits = replace(
            limits,
            smallest_milli=loop.smallest_milli(capacity_milli),
            smallest_of_a_pod_milli=loop.smallest_of_a_pod_milli(capacity_milli),
        )
    held_because = "" if given.loop is None else unsettled(view, before.loop, loop, now) or ""
    sample = ThrottleSample(
        view,
        prod_demand_milli(view),
        is_limited=any(map(is_throttled, view.pods)),
        is_fresh=not held_because,
        now=now,
        is_damped=before.loop.damping.is_waiting(loop.damping, now),
    )
    inputs = CycleInputs(view, policies, before, now, metrics, attempt, given, loop, sample, limits)
    cycle = Cycle(judge_rules(inputs), before, held_because=held_because)
    for stage in INDEPENDENT if given.loop is None else CLOSED_LOOP:
        cycle = stage(inputs, cycle)
    return cycle


def judge_rules(inputs: CycleInputs) -> Analysis:
    """Readings → verdicts and demands, as far as the mode and the backoff of memory allow."""
    mode = inputs.options.mode
    policies, excess = allowed(inputs.policies, mode), inputs.options.excess
    analysis = analyse(inputs.view, policies, inputs.metrics, inputs.before.analyzer, inputs.now, excess)
    if mode is not Mode.EVICT:
        analysis = replace(analysis, evictions=(), previews=(*analysis.previews, *analysis.evictions))
    return within_backoff(analysis, inputs.before.memory, inputs.now)


def judge_limits(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Verdicts → what limits of each rule are worth: demands for needless or useless ones are held."""
    effects = judge_throttles(
        inputs.before.loop.effects,
        cycle.analysis.verdicts,
        inputs.sample,
        inputs.loop.usefulness,
        inputs.policies.actions,
    )
    analysis, weighted = left_to_weights(cycle.analysis, effects, inputs.now)
    analysis = without_suspended(analysis, effects, inputs.now)
    is_undoing = inputs.sample.is_fresh and inputs.sample.is_limited
    undone = throttles_to_undo(analysis, effects, inputs.now) if is_undoing else ()
    return _with_loop(
        replace(cycle, analysis=analysis, left_to_weights=weighted, undone=undone),
        replace(cycle.state.loop, effects=effects),
    )


def follow_demand(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Demands → the loop's estimate of prod: renewed by a trigger, continued in calm under limits."""
    state, analysis = cycle.state.loop, cycle.analysis
    is_fresh = inputs.sample.is_fresh
    if analysis.throttles:
        crossing = _crossing(inputs, cycle)
        return _with_loop(
            cycle, after_trigger(inputs.view, state, inputs.loop, inputs.now, fresh=is_fresh, crossing=crossing)
        )
    if analysis.verdicts and all(map(_is_at_rest, analysis.verdicts)):
        state = replace(state, recorded=())  # the episode is over
    if is_fresh and inputs.sample.is_limited:
        state = after_calm(inputs.view, state)
    return _with_loop(cycle, state)


def plan_actions(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Demands → plan. While any rule is triggered, nothing is restored; while a change is unconfirmed, nothing of CPU
    is done.
    """
    analysis = cycle.analysis
    if not inputs.sample.is_fresh:
        analysis = replace(analysis, throttles=(), evictions=(), restorable=())
    elif analysis.throttles:
        analysis = replace(analysis, restorable=())

    def allow(pod: Restorable) -> Allowance:
        return allowance(inputs.view, cycle.state.loop, inputs.loop, pod.headroom, pod.cool_down_seconds, inputs.now)

    limits, capacity_milli = inputs.limits, inputs.view.capacity_milli or 0
    restore = RestoreStep(allow, capacity_milli, inputs.loop.smallest_of_a_pod_milli(capacity_milli))
    plan = execute(analysis, inputs.before.executor, limits, inputs.now, inputs.attempt, restore)
    if cycle.undone:
        kept = [step for step in plan.steps if step.kind is not ActionKind.RESTORE]
        plan = replace(plan, steps=(*kept, *undo_throttles(_undoable(inputs.view, plan), capacity_milli)))
    return replace(cycle, plan=plan)


def plan_independently(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Demands → plan, without a loop."""
    return replace(
        cycle,
        plan=execute(cycle.analysis, inputs.before.executor, inputs.limits, inputs.now, inputs.attempt),
    )


def plan_dry_run(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Previews → what would be done beyond the plan."""
    dry_run = preview(cycle.analysis, inputs.before.executor, inputs.limits, inputs.now, cycle.plan)
    return replace(cycle, dry_run=dry_run)


def choose_records(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Plan → the decisions to record."""
    recorded, state = plans_to_record(cycle.plan, cycle.dry_run, cycle.state.loop)
    would_close, state = cordons_to_record(cycle.analysis.would_close, state)
    return _with_loop(replace(cycle, recorded=recorded, would_close=would_close), state)


def follow_changes(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Plan → the loop's state: changed quotas await confirmation, reversals are counted. An eviction is credited until
    it ends, and is not waited for.
    """
    changed = {step.kind for step in cycle.plan.steps if step.changes}
    if not changed:
        return cycle
    falls, rises = ActionKind.THROTTLE in changed, ActionKind.RESTORE in changed
    is_gone = bool(cycle.undone) or is_demand_gone(inputs.view, cycle.state.loop, inputs.loop)
    is_new = falls and _is_new_demand(inputs, cycle)
    state = after_change(
        cycle.state.loop, inputs.loop, inputs.now, falls=falls, rises=rises, gone=is_gone, is_new=is_new
    )
    state = replace(state, pending_since=inputs.now, settled_at=None, used_lately_milli=())
    if rises:
        state = replace(state, last_raise_at=inputs.now, demand_at_raise_milli=inputs.sample.demand_milli)
    return _with_loop(cycle, state)


def keep_state(inputs: CycleInputs, cycle: Cycle) -> Cycle:
    """Analysis and plan → the next state."""
    memory = loop_after(inputs.before.memory, cycle.analysis, cycle.plan, inputs.now)
    return replace(cycle, state=CycleState(cycle.analysis.state, cycle.plan.state, cycle.state.loop, memory))


CLOSED_LOOP: Final[tuple[Stage, ...]] = (
    judge_limits,
    follow_demand,
    plan_actions,
    plan_dry_run,
    choose_records,
    follow_changes,
    keep_state,
)
INDEPENDENT: Final[tuple[Stage, ...]] = (plan_independently, plan_dry_run, keep_state)


def allowed(policies: Policies, mode: Mode) -> Policies:
    """Returns the policies that a mode allows. In mode observe no rule acts: the node stays
    uncordoned, and limits are restored.
    """
    if mode is not Mode.OBSERVE:
        return policies
    nodes = (
        replace(policy, rules=tuple(replace(rule, is_preview=True) for rule in policy.rules))
        for policy in policies.nodes
    )
    return replace(policies, nodes=tuple(nodes))


def _with_loop(cycle: Cycle, loop: LoopState) -> Cycle:
    return replace(cycle, state=replace(cycle.state, loop=loop))


def _crossing(inputs: CycleInputs, cycle: Cycle) -> Crossing:
    """Returns by how much the waterlines are crossed, over the rules that request throttling, and since when."""
    requested = {key for demand in cycle.analysis.throttles for key in demand.rules}
    verdicts = [verdict for verdict in cycle.analysis.verdicts if verdict.rule.key in requested]
    since = (
        effect.crossing.since
        for effect in cycle.state.loop.effects
        if effect.rule in requested and effect.crossing is not None
    )
    return Crossing(
        max((beyond_of(verdict, inputs.view) for verdict in verdicts), default=ZERO),
        max((verdict.rule.cool_down_seconds for verdict in verdicts), default=0.0),
        min(since, default=None),
    )


def _is_new_demand(inputs: CycleInputs, cycle: Cycle) -> bool:
    """Returns whether limits fall because prod's demand grew since the last raise, which the trigger has forgotten."""
    state, demand_milli = inputs.before.loop, inputs.sample.demand_milli
    return is_new_demand(state, inputs.loop, demand_milli, _crossing(inputs, cycle), inputs.now)


def _is_at_rest(verdict: RuleVerdict) -> bool:
    """Returns whether a rule is calm. An unmeasured metric that was not above before is in no
    episode and does not delay the next report.
    """
    return verdict.calm or (verdict.reading is None and not verdict.state.in_episode)


def _undoable(view: NodeReadings, plan: Plan) -> list[PodUse]:
    """Returns the pods whose limits can be written: those of a failed write are tried again later."""
    refused = {entry.uid for entry in plan.state.refused if entry.kind is ActionKind.THROTTLE}
    return [pod for pod in view.pods if pod.is_active and not pod.is_terminating and pod.uid not in refused]
