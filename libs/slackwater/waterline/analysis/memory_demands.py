"""Demands on memory: how many bytes batch pods are to release, which pods help, and which limits may rise again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from slackwater.model.records import record
from slackwater.waterline.actuation.memory_high import MemoryBounds, is_memory_throttled, releasable_bytes
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand, Exposed, Exposure, acts
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.values import PolicyAction
from slackwater.waterline.registry.memory import free_memory
from slackwater.waterline.registry.metric import Metric, MetricResource


@record(frozen=True, slots=True)
class RestorableMemory:
    """A pod whose memory limit may rise: by `headroom` bytes in total, or (None) by a step. Without `is_covered` no
    rule throttles its memory any more. `free`: what is free on the node, where a rule compares prod's refaults with it.
    """

    pod: PodUse
    headroom: Decimal | None
    bounds: MemoryBounds
    cool_down_seconds: float = 0.0
    is_covered: bool = True
    free: Decimal | None = None


def acts_on_memory(action: PolicyAction, metric: Metric) -> bool:
    """Returns whether an action throttles memory for this metric."""
    return action.memory is not None and metric.memory is not None


def can_act(action: PolicyAction, metric: Metric) -> bool:
    """Returns whether an action can do anything about a metric besides cordoning the node."""
    kinds = (ActionKind.THROTTLE, ActionKind.EVICT)
    return acts_on_memory(action, metric) or any(acts(kind, action, metric) for kind in kinds)


def memory_need(verdict: RuleVerdict, view: NodeReadings, bounds: MemoryBounds) -> Decimal | None:
    """Returns the bytes that the metric lacks, before the excess; None if it cannot be quantified."""
    metric, reading = verdict.metric, verdict.reading
    if metric is None or metric.memory is None or metric.memory.need is None or reading is None:
        return None
    return metric.memory.need(view, reading, verdict.rule.target, bounds.horizon_seconds)


def memory_demands(
    verdicts: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    excess: Decimal,
) -> tuple[Demand, ...]:
    """Returns a demand per metric with a triggered rule whose action throttles memory; the highest action priority
    first.
    """
    by_metric: dict[str, list[RuleVerdict]] = {}
    for verdict in verdicts:
        if (
            verdict.triggered
            and verdict.metric is not None
            and acts_on_memory(actions[verdict.rule.action], verdict.metric)
        ):
            by_metric.setdefault(verdict.metric.name, []).append(verdict)
    made = [_demand(metric_of(found), found, actions, exposed, view, excess) for found in by_metric.values()]
    return tuple(sorted(made, key=lambda one: (-one.metric.action_priority, one.metric.name)))


def metric_of(verdicts: Sequence[RuleVerdict]) -> Metric:
    metric = verdicts[0].metric
    assert metric is not None  # noqa: S101 - only rules with a metric trigger
    return metric


def _demand(
    metric: Metric,
    triggered: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    excess: Decimal,
) -> Demand:
    """Returns the demand with the largest gap of its rules."""
    asking = [
        _Asking(one.rule.action, bounds, _gap(one, view, bounds, excess))
        for one in triggered
        if (bounds := actions[one.rule.action].memory) is not None
    ]
    known = [one.gap for one in asking if one.gap is not None]
    gap = max(known) if known else None
    candidates = _candidates(metric, asking, exposed)
    if gap is not None and metric.memory is not None and metric.memory.is_bounded:
        most = releasable_of(candidates)
        gap = min(gap, most) if most else gap
    return Demand(
        kind=ActionKind.THROTTLE_MEMORY,
        metric=metric,
        rules=tuple(sorted(one.rule.key for one in triggered)),
        reading=triggered[0].reading or ZERO,
        waterline=min(one.rule.waterline for one in triggered),
        gap=gap,
        candidates=candidates,
        because="" if known else f"{metric.name} cannot be quantified",
    )


def releasable_of(candidates: Sequence[Candidate]) -> Decimal:
    """Returns the bytes that all candidates together can release."""
    return sum(
        (releasable_bytes(candidate.pod, candidate.memory) for candidate in candidates if candidate.memory is not None),
        ZERO,
    )


@record(frozen=True, slots=True)
class _Asking:
    """What one triggered rule requests."""

    action: str
    bounds: MemoryBounds
    gap: Decimal | None


def _gap(verdict: RuleVerdict, view: NodeReadings, bounds: MemoryBounds, excess: Decimal) -> Decimal | None:
    need = memory_need(verdict, view, bounds)
    return None if need is None else max(ZERO, (1 + excess) * need)


def _candidates(metric: Metric, asking: Sequence[_Asking], exposed: Exposed) -> tuple[Candidate, ...]:
    """Returns the candidates in order, each with the largest gap of the rules whose action it allows."""
    found = []
    for keys, one in exposed.ranked(metric.chain):
        own = [each for each in asking if each.action in one.actions]
        if own and metric.concerns(one.pod):
            gap = max((each.gap for each in own if each.gap is not None), default=None)
            bounds = _most_careful([each.bounds for each in own])
            found.append(Candidate(one.pod, gap, keys=keys, memory=bounds))
    return tuple(found)


def _most_careful(bounds: Sequence[MemoryBounds]) -> MemoryBounds:
    """Returns the highest floors and the smallest steps."""
    if len(bounds) == 1:
        return bounds[0]
    return MemoryBounds(
        min_ratio=max(bound.min_ratio for bound in bounds),
        min_bytes=max(bound.min_bytes for bound in bounds),
        margin_ratio=max(bound.margin_ratio for bound in bounds),
        step_ratio=min(bound.step_ratio for bound in bounds),
        restore_step_ratio=min(bound.restore_step_ratio for bound in bounds),
        min_change_bytes=max(bound.min_change_bytes for bound in bounds),
        horizon_seconds=min(bound.horizon_seconds for bound in bounds),
    )


def memory_restorable(
    verdicts: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    now: datetime,
) -> tuple[RestorableMemory, ...]:
    """Returns pods whose memory limit may rise: every memory rule about them, evicting ones included, is calm and past
    its cool-down. A terminating pod gets nothing.
    """
    if not any(map(is_memory_throttled, view.pods)):
        return ()
    known = [
        (verdict, verdict.metric, actions[verdict.rule.action]) for verdict in verdicts if verdict.metric is not None
    ]
    throttling = [one for one, metric, action in known if acts_on_memory(action, metric)]
    evicting = [one for one, metric, action in known if metric.resource is MetricResource.MEMORY and action.evicts]
    found = []
    for exposure in exposed.by_uid.values():
        if not is_memory_throttled(exposure.pod) or exposure.pod.is_terminating or not exposure.pod.is_active:
            continue
        own = [each for each in throttling if each.rule.action in exposure.actions]
        ending = [each for each in evicting if each.rule.action in exposure.actions]
        if not any(holds(each, now) for each in (*own, *ending)):
            found.append(_restorable(exposure, own, actions, view))
    return tuple(found)


def _restorable(
    exposure: Exposure, own: Sequence[RuleVerdict], actions: Mapping[str, PolicyAction], view: NodeReadings
) -> RestorableMemory:
    bounds = [known for each in own if (known := actions[each.rule.action].memory) is not None]
    headrooms = [room for each in own if (room := memory_headroom(each, view)) is not None]
    return RestorableMemory(
        exposure.pod,
        min(headrooms) if headrooms else None,
        _most_careful(bounds) if bounds else MemoryBounds(),
        max((each.rule.cool_down_seconds for each in own), default=0.0),
        bool(own),
        free_memory(view) if any(_is_estimated(each.metric) for each in own) else None,
    )


def _is_estimated(metric: Metric | None) -> bool:
    return metric is not None and metric.memory is not None and metric.memory.is_bounded


def memory_headroom(verdict: RuleVerdict, view: NodeReadings) -> Decimal | None:
    """Returns the bytes between the reading and the waterline; None: no bound."""
    metric, reading = verdict.metric, verdict.reading
    if metric is None or metric.memory is None or reading is None:
        return None
    if not metric.memory.has_headroom or metric.memory.need is None:
        return None
    above = metric.memory.need(view, reading, verdict.rule.waterline, ZERO)
    return None if above is None else max(ZERO, -above)


def holds(verdict: RuleVerdict, now: datetime) -> bool:
    """Returns whether a rule blocks a restore. A rule never above and unmeasured does not."""
    is_calm = verdict.calm if verdict.reading is not None else not verdict.state.in_episode
    return not is_calm or not verdict.is_over(now)
