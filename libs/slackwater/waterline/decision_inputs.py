"""The inputs of a decision: samples, waterlines, gaps and allowances, each with its formula.

A reader with the inputs and terms of a record can repeat its arithmetic without the program.
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Final

from slackwater.decisions.record import Input
from slackwater.model.records import record
from slackwater.waterline import memory_inputs
from slackwater.waterline.analysis.demands import ActionKind, Demand, Restorable, gap_of
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.cycle import Cycle, Options
from slackwater.waterline.execution.plan import Plan, Remaining
from slackwater.waterline.facts.amounts import ZERO, Number
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.feedback import Allowance, LoopState, after_calm, allowance, busiest_milli, wanted_milli
from slackwater.waterline.loop.recorded_once import RecordedPlan
from slackwater.waterline.loop.reversals import wait_seconds
from slackwater.waterline.loop.usefulness import mean
from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.registry.limited_pods import beyond_limits
from slackwater.waterline.registry.metric import MetricResource
from slackwater.waterline.rulebook import Rulebook

UNIT: Final = "milli-cores"
OF_MEMORY: Final = (ActionKind.THROTTLE_MEMORY, ActionKind.RESTORE_MEMORY)
_UNITS: Final = {
    MetricResource.MEMORY: "bytes",
    MetricResource.BATCH_MEMORY_REQUEST: "bytes",
    MetricResource.MID_MEMORY_REQUEST: "bytes",
}


@record(frozen=True, slots=True)
class DecisionContext:
    """Everything a plan was made from. `view` is None when a new policy, and no report, caused
    it.
    """

    node: str
    capacity_milli: int
    state: GuardState
    rules: Rulebook
    options: Options
    now: datetime
    view: NodeReadings | None = None
    report_id: str | None = None
    service: str = "ensurance"


def unit_of(resource: MetricResource) -> str:
    """Returns the unit in which a release is counted."""
    return _UNITS.get(resource, UNIT)


def unit_of_kind(kind: ActionKind, resource: MetricResource | None) -> str:
    """Returns the unit of a decision's result."""
    if kind in OF_MEMORY:
        return memory_inputs.BYTES
    return UNIT if resource is None else unit_of(resource)


def inputs_of(
    recorded: RecordedPlan, demand: Demand | None, cycle: Cycle, source: DecisionContext
) -> tuple[Input, ...]:
    """Returns the inputs. Further demands of the same kind add one gap each, which one reading
    alone would not explain.
    """
    found = [Input(name="mode", value=source.options.mode, unit="", source=source.rules.source)]
    view = source.view
    if view is not None:
        found += _samples(demand, cycle, source, view)
    found.append(Input(name="capacity", value=source.capacity_milli, unit=UNIT, source="node.described"))
    if recorded.kind is ActionKind.RESTORE:
        found += _without_effect(cycle) if cycle.undone else _allowed(cycle, source)
    if recorded.kind is ActionKind.RESTORE_MEMORY:
        found += memory_inputs.restore_inputs(cycle.analysis, source.state.cycle.memory, source.now)
    if recorded.kind is ActionKind.THROTTLE and demand is not None and view is not None:
        found += _weights(demand, cycle, source, view)
    found += _gaps(recorded, demand, cycle, source)
    if recorded.kind is ActionKind.THROTTLE and recorded.carried_out:
        found += _reversed(cycle, source)
    return tuple(found)


def is_left_to_weights(recorded: RecordedPlan, cycle: Cycle) -> bool:
    """Returns whether a plan holds only throttles that are left to CPU weights."""
    if recorded.plan is not cycle.dry_run or not cycle.left_to_weights:
        return False
    asked = (preview for preview in cycle.analysis.previews if preview.kind is ActionKind.THROTTLE)
    return set(cycle.left_to_weights) >= {key for one in asked for key in one.rules}


def _weights(demand: Demand, cycle: Cycle, source: DecisionContext, view: NodeReadings) -> list[Input]:
    """Returns why limits wait for CPU weights or no longer do (see loop.weights_first)."""
    policy, effects = source.options.loop, cycle.state.loop.effects
    if policy is None or policy.quota == "always" or not demand.metric.left_to_weights:
        return []
    found = [_measured("cpu_weights", view.cpu_weights or "none that put prod first", "", source)]
    known = [effect for effect in effects if effect.rule in demand.rules]
    crossed = [one.crossing.since for one in known if one.crossing is not None]
    if not view.cpu_weights or not crossed:
        return found
    seconds = round((source.now - min(crossed)).total_seconds(), 1)
    found.append(Input(name="crossed_for", value=seconds, unit="seconds", source="state: above the waterline"))
    if any(one.has_helped for one in known):
        return [*found, Input(name="limits_helped", value="yes", unit="", source="state: when last judged")]
    after = policy.quota_after_seconds
    return [*found, Input(name="quota_after", value=after, unit="seconds", source=source.rules.source)]


def _reversed(cycle: Cycle, source: DecisionContext) -> list[Input]:
    """Returns the wait that follows this decision if it is a damped reversal (see loop.reversals)."""
    policy, after = source.options.loop, cycle.state.loop.damping
    if policy is None or after.reversed_at != source.now:
        return []
    said = f"computed: limits fell after they had risen, {after.level} in a row: dampingSeconds x 2 ^ {after.level - 1}"
    seconds = wait_seconds(after.level, policy.damping)
    return [Input(name="no rise into headroom for", value=seconds, unit="seconds", source=said)]


def _samples(demand: Demand | None, cycle: Cycle, source: DecisionContext, view: NodeReadings) -> list[Input]:
    verdict = _decisive(demand, cycle, source)
    found = [] if verdict is None else _against_the_waterline(demand, verdict, source, view)
    excess = source.options.excess.gap_ratio
    found.append(Input(name="excess_ratio", value=float(excess), unit="ratio", source=source.rules.source))
    usage = view.readings.get("node_cpu_usage", ())
    found.append(_measured("prod_usage", _whole(view.prod_usage_milli), UNIT, source))
    found.append(_measured("node_usage", _whole(usage[0].value) if usage else None, UNIT, source))
    return found


def _decisive(demand: Demand | None, cycle: Cycle, source: DecisionContext) -> RuleVerdict | None:
    """Returns the requesting rule with the largest gap, which decided how far to go. Without a
    demand, the first with a reading.
    """
    verdicts = [
        verdict for verdict in cycle.analysis.verdicts if verdict.metric is not None and verdict.reading is not None
    ]
    if demand is None or source.view is None:
        return verdicts[0] if verdicts else None
    asked = [verdict for verdict in verdicts if verdict.rule.key in demand.rules]
    view, ratio = source.view, source.options.excess.gap_ratio
    if demand.kind is ActionKind.THROTTLE_MEMORY:
        return max(asked, key=memory_inputs.decisive_need(view, source.rules.policies.actions), default=None)
    return max(asked, key=lambda one: gap_of(one, view, ratio) or ZERO, default=None)


def _against_the_waterline(
    demand: Demand | None, verdict: RuleVerdict, source: DecisionContext, view: NodeReadings
) -> list[Input]:
    rule, metric, rules = verdict.rule, verdict.metric, source.rules.source
    if metric is None or verdict.reading is None:
        return []
    unit = metric.dimension.value
    found = [
        _measured(metric.name, float(verdict.reading), unit, source),
        Input(name="waterline", value=float(rule.waterline), unit=unit, source=rules),
    ]
    if demand is None:
        calm = f"{verdict.state.at_or_below} of {rule.restore_threshold}"
        return [*found, Input(name="samples_calm", value=calm, unit="in a row", source=f"rule {rule.name}")]
    above = f"{verdict.state.above} of {rule.avoidance_threshold}"
    found.append(Input(name="samples_above", value=above, unit="in a row", source=f"rule {rule.name}"))
    if rule.target != rule.waterline:
        found.append(Input(name="target", value=float(rule.target), unit=unit, source=rules))
    found += [_measured(one.name, _whole(one.value), str(one.unit), source) for one in metric.basis(view)]
    if demand.kind is ActionKind.THROTTLE_MEMORY:
        bounds = memory_inputs.bounds_of(verdict, source.rules.policies.actions)
        return [*found, *memory_inputs.need_inputs(demand, verdict, bounds, view, rules)]
    lacking = metric.release(view, verdict.reading, rule.target)
    if demand.gap is not None and lacking is not None:
        said = f"computed: {metric.formula}"
        found.append(Input(name="lacking", value=_whole(lacking), unit=unit_of(metric.resource), source=said))
    if metric.resource is MetricResource.CPU and metric.refilled and (beyond := beyond_limits(view)) >= 1:
        said = (
            "computed: what pods of lower tiers used beyond their limits, less what others among them waited for "
            "within theirs; the reading is without it"
        )
        found.append(Input(name="beyond_limits", value=int(beyond), unit=UNIT, source=said))
    if demand.waited_milli >= 1:
        said = (
            "computed: candidates' min(limit, usage / (1 - waiting)) - usage, where it is more than 0, less what "
            "others used beyond their limits; for a pod that waited 0.9 or more, usage + 1000 x waiting if that is more"
        )
        found.append(Input(name="waited_for", value=int(demand.waited_milli), unit=UNIT, source=said))
    return found


def _gaps(recorded: RecordedPlan, demand: Demand | None, cycle: Cycle, source: DecisionContext) -> list[Input]:
    left = [gap for gap in recorded.plan.remaining if gap.kind is recorded.kind]
    found = [_gap(one, demand, _resource_of(one, cycle)) for one in left]
    is_of_memory = recorded.kind in OF_MEMORY
    for one in left:
        if (demand is None or one.metric != demand.metric.name) and one.open is not None and one.open >= 1:
            said = f"computed: {one.because}"
            unit = unit_of(_resource_of(one, cycle))
            found.append(Input(name=f"remaining of {one.metric}", value=int(one.open), unit=unit, source=said))
        if demand is not None and one.metric == demand.metric.name and (more := _credited(one, recorded.plan)):
            why = "computed: evictions under way, and what throttles of this cycle release"
            if is_of_memory:
                why = "computed: what limits set a short time ago have still to release"
            found.append(Input(name="credited", value=more, unit=unit_of(demand.metric.resource), source=why))
    return found


def _gap(left: Remaining, demand: Demand | None, resource: MetricResource) -> Input:
    is_own = demand is not None and left.metric == demand.metric.name
    said = "computed: (1 + excess_ratio) x lacking" if is_own and left.gap is not None else "computed"
    if is_own and left.gap is not None and demand is not None and left.kind is ActionKind.THROTTLE_MEMORY:
        said = memory_inputs.gap_source(demand)
    if is_own and demand is not None and demand.waited_milli >= 1:
        said += " + waited_for"
    name = "gap" if is_own else f"gap of {left.metric}"
    return Input(name=name, value=_whole(left.gap), unit=unit_of(resource), source=said)


def _resource_of(left: Remaining, cycle: Cycle) -> MetricResource:
    analysis = cycle.analysis
    if left.kind in OF_MEMORY:
        return MetricResource.MEMORY
    asked = (*analysis.throttles, *analysis.evictions, *analysis.previews)
    return next((one.metric.resource for one in asked if one.metric.name == left.metric), MetricResource.CPU)


def _credited(left: Remaining, plan: Plan) -> int:
    """Returns what counts towards a gap in addition to the record's steps."""
    own = sum((dict(step.released).get(left.metric, ZERO) for step in plan.of(left.kind)), ZERO)
    return int(left.released - own)


def _allowed(cycle: Cycle, source: DecisionContext) -> list[Input]:
    """Returns the inputs of a restore."""
    view, policy = source.view, source.options.loop
    state = _seen(source)
    said = "the most that prod used since the last trigger"
    found = [Input(name="prod_demand", value=wanted_milli(state), unit=UNIT, source=f"state: {said}")]
    if state.last_trigger_at is not None:
        since = round((source.now - state.last_trigger_at).total_seconds(), 1)
        found.append(Input(name="since_last_trigger", value=since, unit="seconds", source="state"))
    found.append(Input(name="backoff", value=state.backoff, unit="raises answered by a trigger", source="state"))
    usage = None if view is None else view.readings.get("node_cpu_usage")
    if view is None or policy is None or not usage:
        return found
    used = float(usage[0].value)
    said = "computed: capacity - node_usage"
    found.append(Input(name="idle", value=source.capacity_milli - int(used), unit=UNIT, source=said))
    said = f"state: the most of the last {max(1, len(state.used_lately_milli))} calm samples, this one among them"
    found.append(Input(name="busiest", value=math.ceil(busiest_milli(state, used)), unit=UNIT, source=said))
    most = max(
        (candidate for candidate in cycle.analysis.restorable if candidate.is_covered),
        key=lambda candidate: _allowance(candidate, source, view).milli,
        default=None,
    )
    if most is None:
        return found
    if most.headroom is not None:
        said = "computed: waterline - reading"
        found.append(Input(name="headroom", value=_whole(most.headroom), unit=UNIT, source=said))
    may = _allowance(most, source, view)
    said = f"computed: {may.formula or may.idle_because}"
    return [*found, Input(name="may_rise", value=may.milli, unit=UNIT, source=said)]


def _without_effect(cycle: Cycle) -> list[Input]:
    """Returns the inputs of an undone throttle: the compared reliefs, and the wait that follows."""
    found = []
    said = "computed: {} of (before - reading) / (before - target) over the last samples, {}"
    for one in cycle.undone:
        name, controls = one.rule.partition(".")[2], max(0.0, mean(one.controls))
        limited, free = said.format("largest", "with limits"), said.format("mean", "while it was suspended")
        parts = (
            (f"relief of {name}", max(one.reliefs), "ratio", limited),
            (f"relief of {name} without limits", controls, "ratio", free),
            (f"needed of {name}", controls + one.least_relief, "ratio", "computed: leastRelief + relief without"),
            (f"no limits by {name} for", one.backoff_seconds, "seconds", "computed: doubled each time in a row"),
        )
        found += [Input(name=title, value=round(value, 3), unit=unit, source=why) for title, value, unit, why in parts]
    return found


def _allowance(restorable: Restorable, source: DecisionContext, view: NodeReadings) -> Allowance:
    policy = source.options.loop
    if policy is None:
        return Allowance(0)
    return allowance(view, _seen(source), policy, restorable.headroom, restorable.cool_down_seconds, source.now)


def _seen(source: DecisionContext) -> LoopState:
    """Returns the loop state on which a restore was decided; it already includes this sample."""
    state = source.state.cycle.loop
    return state if source.view is None else after_calm(source.view, state)


def _measured(name: str, value: float | int | str | None, unit: str, source: DecisionContext) -> Input:
    at = None if source.view is None else source.view.sampled_at
    return Input(name=name, value=value, unit=unit, source=source.report_id or "", observed_at=at)


def _whole(value: Number | Decimal | None) -> int | None:
    return None if value is None else int(value)
