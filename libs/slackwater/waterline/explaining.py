"""The record of a decision: its inputs, terms that add up, who was spared and why, and how to repeat it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.waterline import replaying
from slackwater.waterline.analysis.demands import Candidate, Demand, Kind
from slackwater.waterline.cycle import Cycle, Options
from slackwater.waterline.execution.plan import Plan, Remaining, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeView
from slackwater.waterline.guarding import GuardState
from slackwater.waterline.loop.in_force import limits_of, milli_of_quota
from slackwater.waterline.loop.telling import Told
from slackwater.waterline.registry.metric import Metric, Resource
from slackwater.waterline.rulebook import Rulebook

UNIT: Final = "milli-cores"
_UNITS: Final = {Resource.MEMORY: "bytes", Resource.BATCH_MEMORY_REQUEST: "bytes", Resource.MID_MEMORY_REQUEST: "bytes"}
_SUBJECTS: Final = {Resource.MEMORY: "memory", Resource.BATCH_MEMORY_REQUEST: "memory", Resource.OTHER: "node"}
_SPARED_AT_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Deciding:
    """All that a plan was made from. `view` is None when no report but a new policy led to it."""

    node: str
    capacity_milli: int
    state: GuardState
    rules: Rulebook
    options: Options
    now: datetime
    view: NodeView | None = None
    report_id: str | None = None
    service: str = "ensurance"


@dataclass(frozen=True, slots=True)
class Trigger:
    """The metric that a decision is about: what its effect is measured by."""

    metric: str
    reading: float
    waterline: float


def record_of(decision_id: str, told: Told, cycle: Cycle, source: Deciding) -> DecisionRecord:
    """The record of one decision of a cycle. Terms and result count what is released by a throttle or an eviction, in
    the unit of the metric that asked for it, and what is given back by a restore."""
    assert source.view is not None  # noqa: S101 - only a report makes a cycle
    demand, left = _worst(told, cycle)
    steps = told.plan.of(told.kind)
    metric = demand.metric if demand is not None else None
    terms = tuple(_term(step, metric) for step in steps)
    reason = reason_of(told, source.state, cycle)
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind(told.kind.value),
        node=source.node,
        subject="cpu" if metric is None else _SUBJECTS.get(metric.resource, "cpu"),
        service=source.service,
        rule=_rule(demand, cycle),
        mode=source.options.mode,
        reason=reason,
        decided_at=source.now,
        trigger_event_id=source.report_id,
        inputs=_inputs(told, demand, cycle, source),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=UNIT if metric is None else _UNITS.get(metric.resource, UNIT),
        alternatives=_alternatives(told, demand, cycle),
        actions=tuple(_action(step, source.view) for step in steps),
        remaining=0 if left is None or left.open is None else int(left.open),
        remaining_because="" if left is None or (left.open is not None and left.open < 1) else left.because,
        order="" if demand is None else str(demand.metric.chain),
        replay=Replay(
            function=replaying.REPLAY,
            arguments=replaying.arguments(
                source.view,
                source.state,
                source.rules.policies,
                source.options,
                source.now,
                would=told.plan is cycle.would,
            ),
        ),
    )


def release_record(decision_id: str, plan: Plan, source: Deciding, tiers: dict[str, str]) -> DecisionRecord:
    """Everything goes back because the mode allows no throttles any more."""
    terms = tuple(_term(step, None) for step in plan.steps)
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind.RESTORE,
        node=source.node,
        subject="cpu",
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
        unit=UNIT,
        actions=tuple(_limit_action(step, tiers.get(step.uid, "")) for step in plan.steps),
        replay=Replay(
            function=replaying.REPLAY_RELEASE,
            arguments={
                "state": replaying.STATE.dump_python(source.state, mode="json", exclude_defaults=True),
                "capacity_milli": source.capacity_milli,
            },
        ),
    )


def trigger_of(told: Told, cycle: Cycle) -> Trigger | None:
    """None: nothing was measured that a decision could be held against."""
    demand, _ = _worst(told, cycle)
    if demand is not None:
        return Trigger(demand.metric.name, float(demand.reading), float(demand.waterline))
    verdict = next((one for one in cycle.analysis.verdicts if one.reading is not None), None)
    if told.kind is not Kind.RESTORE or verdict is None or verdict.reading is None:
        return None
    return Trigger(verdict.rule.metric, float(verdict.reading), float(verdict.rule.waterline))


def remaining_milli(cycle: Cycle) -> int:
    """The part of the largest CPU gap that stays open."""
    gaps = {one.metric.name: one.metric.resource for one in (*cycle.analysis.throttles, *cycle.analysis.previews)}
    left = [*cycle.plan.remaining, *cycle.would.remaining]
    known = [one.open or ZERO for one in left if gaps.get(one.metric) is Resource.CPU and one.kind is Kind.THROTTLE]
    return int(max(known, default=ZERO))


# ---- the parts of a record


def _worst(told: Told, cycle: Cycle) -> tuple[Demand | None, Remaining | None]:
    """The demand of this kind with the largest gap, and what became of it. A restore has none."""
    analysis = cycle.analysis
    among = analysis.previews if told.plan is cycle.would else (*analysis.throttles, *analysis.evictions)
    asked = {one.metric.name: one for one in among if one.kind is told.kind}
    left = [one for one in told.plan.remaining if one.kind is told.kind and one.metric in asked]
    if not left:
        return None, None
    worst = max(left, key=lambda one: (one.gap is not None, one.gap or ZERO))
    return asked[worst.metric], worst


def reason_of(told: Told, before: GuardState, cycle: Cycle) -> Reason:
    match told.kind:
        case Kind.RESTORE:
            steps = told.plan.of(Kind.RESTORE)
            back = {step.uid for step in steps if step.changes[0].after_us is None or _is_back(step, before)}
            left = {one.uid for one in before.throttles} - back
            return Reason.RESTORE_HEADROOM if left else Reason.RESTORE_COMPLETE
        case Kind.EVICT:
            return Reason.EVICT_OBSERVED_ONLY if told.plan is cycle.would else Reason.EVICT_WATERLINE_CROSSED
        case Kind.THROTTLE:
            return Reason.THROTTLE_OBSERVED_ONLY if told.plan is cycle.would else Reason.THROTTLE_WATERLINE_CROSSED


def _is_back(step: Step, before: GuardState) -> bool:
    ours = before.by_uid().get(step.uid)
    return ours is not None and limits_of(step)[1] == ours.original_limit_milli


def _rule(demand: Demand | None, cycle: Cycle) -> str:
    """Without the policy's name as long as there is one rule."""
    if demand is not None:
        return ", ".join(key.partition(".")[2] for key in demand.rules)
    return cycle.analysis.verdicts[0].rule.name if cycle.analysis.verdicts else ""


def _term(step: Step, metric: Metric | None) -> Term:
    """A throttle and an eviction release; a restore gives back."""
    if step.kind is Kind.RESTORE:
        return Term(name=step.name, value=-int(_given_back(step)), note=_limits(step))
    released = dict(step.released)
    value = int(released.get(metric.name, ZERO)) if metric is not None else 0
    if step.kind is Kind.THROTTLE:
        return Term(name=step.name, value=value, note=_limits(step))
    others = ", ".join(f"{int(amount)} of {name}" for name, amount in step.released if metric and name != metric.name)
    return Term(name=step.name, value=value, note="evicted" + (f", also {others}" if others else ""))


def _given_back(step: Step) -> Decimal:
    return sum((change.amount_milli for change in step.changes), ZERO)


def _limits(step: Step) -> str:
    before, after = limits_of(step)
    goal = "none" if after is None else str(after)
    return f"limit {'none' if before is None else before} -> {goal if step.kind is Kind.THROTTLE else _back_to(step)}"


def _back_to(step: Step) -> str:
    after = limits_of(step)[1]
    return "original" if after is None else str(after)


def _action(step: Step, view: NodeView) -> Action:
    pod = next(pod for pod in view.pods if pod.uid == step.uid)
    if step.changes:
        return _limit_action(step, str(pod.tier or ""))
    limit = milli_of_quota(pod.containers[0].quota_us) if pod.containers else None
    return Action(
        pod_uid=step.uid,
        pod_name=step.name,
        tier=str(pod.tier or ""),
        cpu_limit_before_milli=limit,
        cpu_limit_after_milli=limit,
        released_milli=int(pod.cpu_usage_milli or 0),
        evicted=True,
        keys=_keys(step.keys),
    )


def _limit_action(step: Step, tier: str) -> Action:
    before, after = limits_of(step)
    sign = -1 if step.kind is Kind.RESTORE else 1
    return Action(
        pod_uid=step.uid,
        pod_name=step.name,
        tier=tier,
        cpu_limit_before_milli=before,
        cpu_limit_after_milli=after,
        released_milli=sign * int(_given_back(step)),
        keys=_keys(step.keys),
    )


def _keys(keys: tuple[object, ...]) -> tuple[float, ...]:
    return tuple(float(str(key)) for key in keys)


def _alternatives(told: Told, demand: Demand | None, cycle: Cycle) -> tuple[Alternative, ...]:
    """Who was looked at and left alone, in the order of candidates, with what each could have released."""
    candidates = {} if demand is None else {one.pod.uid: one for one in demand.candidates}
    found, told_of = [], set[str]()
    for one in told.plan.spared:
        if one.kind is told.kind and one.uid not in told_of:
            told_of.add(one.uid)
            candidate = candidates.get(one.uid)
            would = None if candidate is None or demand is None else _at_most(demand, candidate)
            keys = () if candidate is None else _keys(candidate.keys)
            found.append(Alternative(what=one.name, rejected_because=one.because, keys=keys, would_release=would))
    if told.kind is not Kind.RESTORE:
        found += [Alternative(what=one.rule, rejected_because=one.because) for one in cycle.analysis.ignored]
    return tuple(found[:_SPARED_AT_MOST])


def _at_most(demand: Demand, candidate: Candidate) -> int | None:
    """What a candidate would have released if it had been asked for all that it may give."""
    if demand.kind is Kind.EVICT:
        return int(demand.metric.released_by_eviction(candidate.pod))
    if candidate.throttle is None or demand.metric.throttle is None:
        return None
    return int(sum((one.amount_milli for one in demand.metric.throttle(candidate.pod, candidate.throttle, None)), ZERO))


def _inputs(told: Told, demand: Demand | None, cycle: Cycle, source: Deciding) -> tuple[Input, ...]:
    """Of further demands of the same kind as many as there are: what one reading alone would not explain."""
    name = source.rules.source
    found = [Input(name="mode", value=source.options.mode, unit="", source=name)]
    found += _measured(told, demand, cycle, source)
    found.append(Input(name="capacity", value=source.capacity_milli, unit=UNIT, source="node.described"))
    if told.kind is Kind.RESTORE:
        wanted = source.state.cycle.loop.demand_at_trigger_milli
        found.append(Input(name="demand_at_trigger", value=wanted, unit=UNIT, source="state"))
    for left in told.plan.remaining:
        if left.kind is told.kind:
            label = "gap" if demand is not None and left.metric == demand.metric.name else f"gap of {left.metric}"
            gap = None if left.gap is None else int(left.gap)
            found.append(
                Input(name=label, value=gap, unit=UNIT if demand is None else _unit(demand), source="computed")
            )
    return tuple(found)


def _unit(demand: Demand) -> str:
    return _UNITS.get(demand.metric.resource, UNIT)


def _measured(told: Told, demand: Demand | None, cycle: Cycle, source: Deciding) -> list[Input]:
    view, rules = source.view, source.rules.source
    if view is None:
        return []

    def measured(name: str, value: float | int | None, unit: str) -> Input:
        return Input(name=name, value=value, unit=unit, source=source.report_id or "", observed_at=view.sampled_at)

    found = []
    trigger = trigger_of(told, cycle)
    metric = demand.metric.name if demand is not None else trigger.metric if trigger is not None else ""
    for verdict in cycle.analysis.verdicts:
        if verdict.metric is None or verdict.reading is None:
            continue
        if verdict.rule.metric == metric:
            unit = verdict.metric.dimension.value
            found.append(measured(metric, float(verdict.reading), unit))
            found.append(Input(name="waterline", value=float(verdict.rule.waterline), unit=unit, source=rules))
            break
    found.append(Input(name="excess_ratio", value=float(source.options.excess.gap_ratio), unit="ratio", source=rules))
    usage = view.readings.get("node_cpu_usage", ())
    prod = None if view.prod_usage_milli is None else int(view.prod_usage_milli)
    found.append(measured("prod_usage", prod, UNIT))
    found.append(measured("node_usage", int(usage[0].value) if usage else None, UNIT))
    return found
