"""Builds decision records: inputs, terms that add up, spared candidates with reasons, and the
replay arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline import cycle_replay
from slackwater.waterline.actuation.cpu_quota import amount_of
from slackwater.waterline.actuation.memory_high import releasable_bytes
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.cycle import Cycle
from slackwater.waterline.decision_inputs import (
    OF_MEMORY,
    UNIT,
    DecisionContext,
    inputs_of,
    is_left_to_weights,
    unit_of_kind,
)
from slackwater.waterline.execution.plan import Plan, Remaining, Step
from slackwater.waterline.facts.amounts import ZERO, Number
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import limits_of, milli_of_quota
from slackwater.waterline.loop.recorded_once import RecordedPlan
from slackwater.waterline.memory_record import kept_limits, memory_action, memory_term
from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.ordering.chains import CPU, MEMORY, ComparatorChain
from slackwater.waterline.registry.metric import Metric, MetricResource

_SUBJECTS: Final = {
    MetricResource.MEMORY: "memory",
    MetricResource.BATCH_MEMORY_REQUEST: "memory",
    MetricResource.OTHER: "node",
}
_SPARED_AT_MOST: Final = 200
_RESTORES: Final = (ActionKind.RESTORE, ActionKind.RESTORE_MEMORY)
SHARED: Final = "shared by the pods"
"""Name of the term for CPU that several raised limits have in common."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The metric of a decision, by which its effect is measured, over the series that its rule
    selects.
    """

    metric: str
    reading: float
    waterline: float
    selector: LabelSelector | None = None


def record_of(decision_id: str, recorded: RecordedPlan, cycle: Cycle, source: DecisionContext) -> DecisionRecord:
    """Returns the record of one decision of a cycle. Terms and result count what a throttle or an
    eviction releases, in the unit of the requesting metric, and what a restore returns.
    """
    assert source.view is not None  # noqa: S101 - only a report makes a cycle
    demand, left = _worst(recorded, cycle)
    steps = recorded.plan.of(recorded.kind)
    metric = demand.metric if demand is not None else None
    pods = {pod.uid: pod for pod in source.view.pods}
    terms = _terms(recorded.kind, [_term(step, metric, pods[step.uid]) for step in steps], source)
    chain, reason = _chain_of(demand, recorded.kind), reason_of(recorded, source.state, cycle)
    return DecisionRecord(
        id=decision_id,
        kind=kind_of(recorded.kind),
        node=source.node,
        subject=_subject(recorded.kind, metric),
        service=source.service,
        rule=_rule(demand, cycle),
        mode=source.options.mode,
        reason=reason,
        decided_at=source.now,
        trigger_event_id=source.report_id,
        inputs=inputs_of(recorded, demand, cycle, source),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=unit_of_kind(recorded.kind, None if metric is None else metric.resource),
        alternatives=_alternatives(recorded, demand, cycle, source.state, pods),
        actions=tuple(_action(step, pods[step.uid], chain) for step in steps),
        remaining=0 if left is None or left.open is None else int(left.open),
        remaining_because="" if left is None or (left.open is not None and left.open < 1) else left.because,
        order=str(chain),
        replay=cycle_replay.replay_of_cycle(
            cycle_replay.REPLAY,
            source.view,
            source.state,
            source.rules.policies,
            source.options,
            source.now,
            would=recorded.plan is cycle.dry_run,
        ),
    )


def release_records(new_id: Callable[[], str], plan: Plan, source: DecisionContext) -> tuple[DecisionRecord, ...]:
    """Returns the records of restoring all limits because the mode forbids throttling: of CPU, and of memory."""
    kinds = (ActionKind.RESTORE, ActionKind.RESTORE_MEMORY)
    return tuple(_release_record(new_id(), kind, plan, source) for kind in kinds if plan.of(kind))


def _release_record(decision_id: str, kind: ActionKind, plan: Plan, source: DecisionContext) -> DecisionRecord:
    steps = plan.of(kind)
    terms = _terms(kind, [_term(step, None, None) for step in steps], source)
    tiers = {throttle.uid: throttle.tier for throttle in source.state.throttles} | {
        one.uid: one.tier for one in source.state.memory
    }
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind.RESTORE,
        node=source.node,
        subject=_subject(kind, None),
        service=source.service,
        rule="",
        mode=source.options.mode,
        reason=Reason.RESTORE_MODE_CHANGED,
        decided_at=source.now,
        trigger_event_id=source.report_id,
        inputs=(
            Input(name="mode", value=source.options.mode, unit="", source=source.rules.source),
            Input(name="capacity", value=source.capacity_milli, unit=UNIT, source="node.described"),
        ),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=unit_of_kind(kind, None),
        actions=tuple(_limit_action(step, tiers.get(step.uid, "")) for step in steps),
        replay=Replay(
            function=cycle_replay.REPLAY_RELEASE,
            arguments={
                "state": cycle_replay.STATE.dump_python(source.state, mode="json", exclude_defaults=True),
                "capacity_milli": source.capacity_milli,
            },
        ),
    )


def trigger_of(recorded: RecordedPlan, cycle: Cycle) -> Trigger | None:
    """Returns the deciding metric; None: no measurement belongs to the decision."""
    demand, _ = _worst(recorded, cycle)
    read = [verdict for verdict in cycle.analysis.verdicts if verdict.reading is not None]
    if demand is not None:
        asked = [one for one in read if one.rule.key in demand.rules]
        verdict = max(asked, key=lambda one: (one.reading or ZERO) - one.rule.waterline, default=None)
    else:
        verdict = next(iter(_restored_by(recorded.kind, read)), None)
    if verdict is None or verdict.reading is None:
        return None
    rule = verdict.rule
    return Trigger(rule.metric, float(verdict.reading), float(rule.waterline), rule.selector)


def kind_of(kind: ActionKind) -> DecisionKind:
    """Returns the kind of the decision; its subject says whether it is about CPU or memory."""
    return DecisionKind(kind.value.removesuffix("-memory"))


def _subject(kind: ActionKind, metric: Metric | None) -> str:
    if kind in OF_MEMORY:
        return "memory"
    return "cpu" if metric is None else _SUBJECTS.get(metric.resource, "cpu")


def _restored_by(kind: ActionKind, read: Sequence[RuleVerdict]) -> Sequence[RuleVerdict]:
    """Returns the rules by whose metric a restore is measured."""
    if kind is ActionKind.RESTORE:
        return read
    if kind is ActionKind.RESTORE_MEMORY:
        return [one for one in read if one.metric is not None and one.metric.memory is not None]
    return ()


def remaining_milli(cycle: Cycle) -> int:
    """Returns the part of the largest CPU gap that stays open."""
    gaps = {one.metric.name: one.metric.resource for one in (*cycle.analysis.throttles, *cycle.analysis.previews)}
    left = [*cycle.plan.remaining, *cycle.dry_run.remaining]
    known = [
        one.open or ZERO
        for one in left
        if gaps.get(one.metric) is MetricResource.CPU and one.kind is ActionKind.THROTTLE
    ]
    return int(max(known, default=ZERO))


# ---- the parts of a record


def _worst(recorded: RecordedPlan, cycle: Cycle) -> tuple[Demand | None, Remaining | None]:
    """Returns the demand of this kind with the largest gap, open ones first, and its outcome. A
    restore has none.
    """
    asked = {one.metric.name: one for one in _asked(recorded, cycle)}
    left = [gap for gap in recorded.plan.remaining if gap.kind is recorded.kind and gap.metric in asked]
    if not left:
        return None, None
    worst = max(left, key=lambda one: ((one.open or ZERO) >= 1, one.gap is not None, one.gap or ZERO))
    return asked[worst.metric], worst


def _asked(recorded: RecordedPlan, cycle: Cycle) -> list[Demand]:
    """Returns all demands of this kind: several metrics may have requested one decision."""
    analysis = cycle.analysis
    real = (*analysis.throttles, *analysis.memory, *analysis.evictions)
    among = analysis.previews if recorded.plan is cycle.dry_run else real
    return [one for one in among if one.kind is recorded.kind]


def _chain_of(demand: Demand | None, kind: ActionKind) -> ComparatorChain:
    """Returns the order used in the record: all keys follow this chain, whichever metric chose a
    pod.
    """
    if demand is not None:
        return demand.metric.chain
    return MEMORY if kind in OF_MEMORY else CPU


def reason_of(recorded: RecordedPlan, before: GuardState, cycle: Cycle) -> Reason:
    match recorded.kind:
        case ActionKind.RESTORE if cycle.undone:
            return Reason.RESTORE_WITHOUT_EFFECT
        case ActionKind.RESTORE:
            steps = recorded.plan.of(ActionKind.RESTORE)
            back = {step.uid for step in steps if step.changes[0].after_us is None or _is_back(step, before)}
            left = {throttle.uid for throttle in before.throttles} - back
            return Reason.RESTORE_HEADROOM if left else Reason.RESTORE_COMPLETE
        case ActionKind.RESTORE_MEMORY:
            steps = recorded.plan.of(ActionKind.RESTORE_MEMORY)
            return Reason.RESTORE_HEADROOM if kept_limits(before, steps) else Reason.RESTORE_COMPLETE
        case ActionKind.EVICT:
            return Reason.EVICT_OBSERVED_ONLY if recorded.plan is cycle.dry_run else Reason.EVICT_WATERLINE_CROSSED
        case ActionKind.THROTTLE if is_left_to_weights(recorded, cycle):
            return Reason.THROTTLE_LEFT_TO_WEIGHTS
        case ActionKind.THROTTLE | ActionKind.THROTTLE_MEMORY:
            return (
                Reason.THROTTLE_OBSERVED_ONLY if recorded.plan is cycle.dry_run else Reason.THROTTLE_WATERLINE_CROSSED
            )


def _is_back(step: Step, before: GuardState) -> bool:
    ours = before.by_uid().get(step.uid)
    return ours is not None and limits_of(step)[1] == ours.original_limit_milli


def _rule(demand: Demand | None, cycle: Cycle) -> str:
    """Returns the rule's name, without the policy's name while there is only one rule."""
    if demand is not None:
        return ", ".join(key.partition(".")[2] for key in demand.rules)
    if cycle.undone:
        return ", ".join(one.rule.partition(".")[2] for one in cycle.undone)
    return cycle.analysis.verdicts[0].rule.name if cycle.analysis.verdicts else ""


def _term(step: Step, metric: Metric | None, pod: PodUse | None) -> Term:
    """Returns the term of a step: a throttle and an eviction release, a restore returns."""
    if step.memory is not None:
        return memory_term(step, step.memory, metric, pod)
    uses = "" if pod is None or pod.cpu_usage_milli is None else f"uses {int(pod.cpu_usage_milli)}, "
    if step.kind is ActionKind.RESTORE:
        return Term(name=step.name, value=-int(amount_of(step.changes)), note=uses + _limits(step))
    released = dict(step.released)
    value = int(released.get(metric.name, ZERO)) if metric is not None else 0
    if step.kind is ActionKind.THROTTLE:
        return Term(name=step.name, value=value, note=uses + _limits(step))
    others = ", ".join(f"{int(amount)} of {name}" for name, amount in step.released if metric and name != metric.name)
    because = "" if metric is None or step.metric == metric.name else f" for {step.metric}"
    return Term(name=step.name, value=value, note=f"evicted{because}" + (f", also {others}" if others else ""))


def _terms(kind: ActionKind, terms: Sequence[Term], source: DecisionContext) -> tuple[Term, ...]:
    return tuple(terms) if kind in OF_MEMORY else within_capacity(terms, source.capacity_milli)


def within_capacity(terms: Sequence[Term], capacity_milli: int) -> tuple[Term, ...]:
    """Returns the terms of a plan; if limits rise by more than the node has, a term that counts the shared CPU once, so
    that no more than the capacity is given back.
    """
    beyond = -sum(min(0, term.value) for term in terms) - max(0, capacity_milli)
    if beyond <= 0:
        return tuple(terms)
    return (*terms, Term(name=SHARED, value=beyond, note="limits rise by more than the node has", input="capacity"))


def _limits(step: Step) -> str:
    before, after = limits_of(step)
    goal = "none" if after is None else str(after)
    end = goal if step.kind is ActionKind.THROTTLE else _back_to(step)
    return f"limit {'none' if before is None else before} -> {end}"


def _back_to(step: Step) -> str:
    after = limits_of(step)[1]
    return "original" if after is None else str(after)


def _action(step: Step, pod: PodUse, chain: ComparatorChain) -> Action:
    if step.changes or step.memory is not None:
        return _limit_action(step, str(pod.tier or ""), pod.namespace, chain.keys(pod), pod)
    limit = milli_of_quota(pod.containers[0].quota_us) if pod.containers else None
    return Action(
        pod_uid=step.uid,
        pod_name=step.name,
        tier=str(pod.tier or ""),
        cpu_limit_before_milli=limit,
        cpu_limit_after_milli=limit,
        released_milli=int(pod.cpu_usage_milli or 0),
        evicted=True,
        keys=_keys(chain.keys(pod)),
        namespace=pod.namespace,
    )


def _limit_action(
    step: Step, tier: str, namespace: str = "", keys: tuple[Number, ...] = (), pod: PodUse | None = None
) -> Action:
    if step.memory is not None:
        return memory_action(step, step.memory, tier, namespace, _keys(keys), pod)
    before, after = limits_of(step)
    sign = -1 if step.kind is ActionKind.RESTORE else 1
    return Action(
        pod_uid=step.uid,
        pod_name=step.name,
        tier=tier,
        cpu_limit_before_milli=before,
        cpu_limit_after_milli=after,
        released_milli=sign * int(amount_of(step.changes)),
        keys=_keys(keys),
        namespace=namespace,
    )


def _keys(keys: tuple[Number, ...]) -> tuple[float, ...]:
    return tuple(map(float, keys))


def _alternatives(
    recorded: RecordedPlan, demand: Demand | None, cycle: Cycle, before: GuardState, pods: Mapping[str, PodUse]
) -> tuple[Alternative, ...]:
    """Returns the spared pods in candidate order, with what each could have released."""
    candidates = {candidate.pod.uid: candidate for each in _asked(recorded, cycle) for candidate in each.candidates}
    candidates |= {} if demand is None else {candidate.pod.uid: candidate for candidate in demand.candidates}
    chain = _chain_of(demand, recorded.kind)
    found, recorded_uids = [], set[str]()
    for one in recorded.plan.spared:
        if one.kind is recorded.kind and one.uid not in recorded_uids:
            recorded_uids.add(one.uid)
            candidate = candidates.get(one.uid)
            would = None if candidate is None or demand is None else _at_most(demand, candidate)
            is_placed = candidate is not None or recorded.kind in _RESTORES
            keys = chain.keys(pods[one.uid]) if is_placed and one.uid in pods else ()
            found.append(_spared(pods.get(one.uid), one.uid, one.name, one.because, keys, would))
    if recorded.kind in _RESTORES:
        raised = {step.uid for step in recorded.plan.of(recorded.kind)}
        limited = before.throttles if recorded.kind is ActionKind.RESTORE else before.memory
        kept = [one for one in limited if one.uid in pods and one.uid not in raised | recorded_uids]
        found += [
            _spared(
                pods[one.uid],
                one.uid,
                one.name,
                "a rule of its own is not calm, or cools down",
                chain.keys(pods[one.uid]),
            )
            for one in sorted(kept, key=lambda one: one.uid)
        ]
    else:
        ignored = [one for one in cycle.analysis.ignored if recorded.kind in OF_MEMORY or _is_of_cpu(one.rule, cycle)]
        found += [Alternative(what=one.rule, rejected_because=one.because) for one in ignored]
    return tuple(found[:_SPARED_AT_MOST])


def _is_of_cpu(rule: str, cycle: Cycle) -> bool:
    """Returns whether a rule is about more than memory limits: an agent without readings of memory is no news in a
    decision about CPU.
    """
    metrics = [
        verdict.metric for verdict in cycle.analysis.verdicts if verdict.rule.key == rule and verdict.metric is not None
    ]
    return not metrics or any(metric.memory is None or metric.evict_quantified for metric in metrics)


def _spared(
    pod: PodUse | None,
    uid: str,
    name: str,
    because: str,
    keys: tuple[Number, ...],
    would: int | None = None,
) -> Alternative:
    return Alternative(
        what=name,
        rejected_because=because,
        keys=_keys(keys),
        would_release=would,
        pod_uid=uid,
        namespace="" if pod is None else pod.namespace,
    )


def _at_most(demand: Demand, candidate: Candidate) -> int | None:
    """Returns the most that a candidate could have released."""
    if demand.kind is ActionKind.EVICT:
        return int(demand.metric.released_by_eviction(candidate.pod))
    if demand.kind is ActionKind.THROTTLE_MEMORY:
        return None if candidate.memory is None else int(releasable_bytes(candidate.pod, candidate.memory))
    if candidate.throttle is None or demand.metric.throttle is None:
        return None
    return int(amount_of(demand.metric.throttle(candidate.pod, candidate.throttle, None)))
