"""One cycle of analysis: count samples, decide about scheduling, collect demands and restorable
pods. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal

from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, restore_cpu
from slackwater.waterline.analysis.demands import (
    ActionKind,
    Demand,
    Exposed,
    Restorable,
    acts,
    demands,
    headroom_of,
)
from slackwater.waterline.analysis.memory_demands import (
    RestorableMemory,
    can_act,
    memory_demands,
    memory_restorable,
)
from slackwater.waterline.analysis.sample_counters import RuleState, RuleVerdict, judge
from slackwater.waterline.analysis.scheduling import Scheduling, SchedulingStep, step, would_close
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.values import Policies, PolicyAction, Rule
from slackwater.waterline.registry.metric import MetricResource, Metrics, Restore


@record(frozen=True, slots=True)
class Excess:
    """Hysteresis ratios: released beyond the gap, so that a waterline is not crossed again at once;
    and restored beyond the headroom, normally 0 (the peer's behaviour oscillates).
    """

    gap_ratio: Decimal = Decimal("0.10")
    headroom_ratio: Decimal = Decimal(0)


@record(frozen=True, slots=True)
class AnalyzerState:
    """The analysis state of a node between two cycles."""

    rules: tuple[RuleState, ...] = ()
    scheduling: Scheduling = field(default_factory=Scheduling)


@record(frozen=True, slots=True)
class Ignored:
    """A rule that was ignored, and why."""

    rule: str
    because: str


@record(frozen=True, slots=True)
class Analysis:
    """The result of one cycle's analysis. `previews` are the demands of rules with strategy
    Preview: planned and recorded, never carried out. `would_close` are those of these rules that
    would cordon the node. `memory` are the demands on memory limits.
    """

    verdicts: tuple[RuleVerdict, ...]
    throttles: tuple[Demand, ...]
    evictions: tuple[Demand, ...]
    previews: tuple[Demand, ...]
    restorable: tuple[Restorable, ...]
    exposed: Exposed
    ignored: tuple[Ignored, ...]
    scheduling: SchedulingStep
    state: AnalyzerState
    would_close: tuple[str, ...] = ()
    memory: tuple[Demand, ...] = ()
    restorable_memory: tuple[RestorableMemory, ...] = ()
    capacity_bytes: int | None = None


def analyse(
    view: NodeReadings,
    policies: Policies,
    metrics: Metrics,
    before: AnalyzerState,
    now: datetime,
    excess: Excess | None = None,
) -> Analysis:
    """Returns the analysis of one view. A rule whose action does not exist is reported as ignored
    and does not count.
    """
    beyond = excess or Excess()
    actions = {action.name: action for action in policies.actions}
    rules = _rules(policies, view)
    known = [rule for rule in rules if rule.action in actions]
    states = {state.rule: state for state in before.rules}
    verdicts = [
        judge(rule, metrics.get(rule.metric), view, states.get(rule.key, RuleState(rule.key)), now) for rule in known
    ]
    real = [verdict for verdict in verdicts if not verdict.rule.is_preview]
    preview = [verdict for verdict in verdicts if verdict.rule.is_preview]
    exposed = Exposed(view.pods, policies.pods)

    def asked(kind: ActionKind, among: Sequence[RuleVerdict]) -> tuple[Demand, ...]:
        return demands(kind, among, actions, exposed, view, beyond.gap_ratio)

    scheduling = step(before.scheduling, real, actions, now)
    return Analysis(
        verdicts=tuple(verdicts),
        throttles=asked(ActionKind.THROTTLE, real),
        evictions=asked(ActionKind.EVICT, real),
        previews=asked(ActionKind.THROTTLE, preview)
        + asked(ActionKind.EVICT, preview)
        + memory_demands(preview, actions, exposed, view, beyond.gap_ratio),
        restorable=_restorable(real, actions, exposed, view, beyond.headroom_ratio, now),
        exposed=exposed,
        ignored=_ignored(rules, verdicts, actions),
        scheduling=scheduling,
        state=AnalyzerState(tuple(verdict.state for verdict in verdicts), scheduling.scheduling),
        would_close=would_close(preview, actions),
        memory=memory_demands(real, actions, exposed, view, beyond.gap_ratio),
        restorable_memory=memory_restorable(real, actions, exposed, view, now),
        capacity_bytes=view.capacity_bytes,
    )


def _rules(policies: Policies, view: NodeReadings) -> list[Rule]:
    matching = (node for node in policies.nodes if node.selector is None or node.selector.matches(view.labels))
    return [rule for policy in matching for rule in policy.rules]


def _ignored(
    rules: Sequence[Rule], verdicts: Sequence[RuleVerdict], actions: Mapping[str, PolicyAction]
) -> tuple[Ignored, ...]:
    unknown = [
        Ignored(rule.key, f"action {rule.action} is not defined") for rule in rules if rule.action not in actions
    ]
    missing = [Ignored(verdict.rule.key, verdict.state.missing) for verdict in verdicts if verdict.state.missing]
    useless = [
        Ignored(verdict.rule.key, f"action {verdict.rule.action} can do nothing about {verdict.rule.metric}")
        for verdict in verdicts
        if _does_nothing(actions[verdict.rule.action], verdict)
    ]
    return tuple(sorted((*unknown, *missing, *useless), key=lambda one: one.rule))


def _does_nothing(action: PolicyAction, verdict: RuleVerdict) -> bool:
    if verdict.metric is None or (action.throttle is None and action.memory is None and not action.evicts):
        return False
    return not can_act(action, verdict.metric)


def is_throttled(pod: PodUse) -> bool:
    for container in pod.containers:  # half the time of any(), once per pod and cycle
        if container.quota_us is not None and container.quota_us != container.original_quota_us:
            return True
    return False


def _restorable(
    verdicts: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    excess: Decimal,
    now: datetime,
) -> tuple[Restorable, ...]:
    """Returns throttled pods that may be restored: every CPU rule about them, evicting ones
    included, is calm and past its cool-down. A metric triggered anywhere blocks all restores, as
    does one that is no longer measured. A pod that no rule throttles any more gets its limits back
    in full when the others allow it, a terminating one gets nothing.
    """
    if not any(map(is_throttled, view.pods)):
        return ()
    throttling = [
        verdict
        for verdict in verdicts
        if verdict.metric is not None and acts(ActionKind.THROTTLE, actions[verdict.rule.action], verdict.metric)
    ]
    evicting = [
        verdict
        for verdict in verdicts
        if verdict.metric is not None
        and verdict.metric.resource is MetricResource.CPU
        and acts(ActionKind.EVICT, actions[verdict.rule.action], verdict.metric)
    ]
    busy = {verdict.rule.metric for verdict in verdicts if verdict.triggered}
    headrooms = {one.rule.key: headroom_of(one, view, excess) for one in throttling}
    found = []
    for exposure in exposed.by_uid.values():
        if not is_throttled(exposure.pod) or exposure.pod.is_terminating or not exposure.pod.is_active:
            continue
        own = [verdict for verdict in throttling if verdict.rule.action in exposure.actions]
        ending = [verdict for verdict in evicting if verdict.rule.action in exposure.actions]
        if any(each.rule.metric in busy or _holds(each, now) for each in (*own, *ending)):
            continue
        bounds = [headrooms[each.rule.key] for each in own]
        known = [bound for bound in bounds if bound is not None]
        steps = [actions[each.rule.action].restore for each in own]
        found.append(
            Restorable(
                exposure.pod,
                min(known) if known else None,
                _most_careful(steps, view),
                max((each.rule.cool_down_seconds for each in own), default=0.0),
                bool(own),
                _way_of(own),
            )
        )
    return tuple(found)


def _way_of(own: Sequence[RuleVerdict]) -> Restore | None:
    """Returns the restore function of the most urgent metric that throttles the pod and has its
    own.
    """
    metrics = [one.metric for one in own if one.metric is not None]
    ranked = sorted(metrics, key=lambda metric: (-metric.action_priority, metric.name))
    ways = (metric.restore for metric in ranked)
    return next((way for way in ways if way is not None and way is not restore_cpu), None)


def _holds(verdict: RuleVerdict, now: datetime) -> bool:
    """Returns whether a rule blocks a restore. A rule never above and unmeasured does not; its
    cool-down applies without samples.
    """
    is_calm = verdict.calm if verdict.reading is not None else not verdict.state.in_episode
    return not is_calm or not verdict.is_over(now)


def _most_careful(steps: Sequence[RestoreBounds], view: NodeReadings) -> RestoreBounds:
    chosen = min(steps, key=lambda step: step.step_ratio) if steps else RestoreBounds(Decimal(1))
    if chosen.unlimited_at_milli is not None or view.capacity_milli is None:
        return chosen
    return replace(chosen, unlimited_at_milli=Decimal(view.capacity_milli))
