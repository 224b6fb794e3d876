"""Computes demands: gaps per metric and kind of action, and for each pod the largest gap that it
may help to close.

The strictest waterline of a kind and metric counts, but a pod that only a laxer rule may affect is
used for that rule's gap alone. Some pods are protected, whatever a policy says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds, waited_milli
from slackwater.waterline.actuation.memory_high import MemoryBounds
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.facts.amounts import ZERO, Number
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import ComparatorChain
from slackwater.waterline.policies.podqos import PodQosSpec
from slackwater.waterline.policies.values import PolicyAction
from slackwater.waterline.registry.limited_pods import set_off
from slackwater.waterline.registry.metric import Metric, Restore

PROTECTED_TIERS: Final = frozenset({Tier.PROD, Tier.MID})
OWNERS_OF_CPUS: Final = frozenset({QoSClass.LSE, QoSClass.LSR})


class Exposure(Struct, frozen=True, gc=False):
    """The actions that policies allow on one pod, or why none is allowed."""

    pod: PodUse
    actions: frozenset[str]
    protected_because: str = ""


def protection(
    pod: PodUse, named: frozenset[QoSClass] = frozenset(), tiers: frozenset[Tier] = PROTECTED_TIERS
) -> str | None:
    """Returns why a pod is protected, or None. `named`: QoS classes that its policies name."""
    if pod.is_own:
        return "it is the agent itself"
    if pod.is_system or pod.qos is QoSClass.SYSTEM:
        return "it belongs to the system"
    if pod.is_static:
        return "it is a static pod"
    if pod.is_terminating or not pod.is_active:
        return "it is already on its way out" if pod.is_terminating else "it has ended"
    if pod.tier in tiers:
        return f"tier {pod.tier} is protected"
    if pod.qos in OWNERS_OF_CPUS and pod.qos not in named:
        return f"QoS class {pod.qos} is protected unless it is named"
    return None


class Exposed:
    """All pods of one cycle by uid, and their orders, each computed once and when first asked for: a
    calm cycle asks for none. The policies of a pod add up. A chain is identified by its comparators,
    because two chains of one name may differ.
    """

    def __init__(
        self, pods: Sequence[PodUse], policies: Sequence[PodQosSpec], tiers: frozenset[Tier] = PROTECTED_TIERS
    ) -> None:
        self._pods = pods
        self._policies = policies
        self._tiers = tiers
        self._ranked: dict[ComparatorChain, list[tuple[tuple[Number, ...], Exposure]]] = {}

    @cached_property
    def by_uid(self) -> Mapping[str, Exposure]:
        allowing = _Allowing(self._policies)
        return {pod.uid: _exposure(pod, allowing, self._tiers) for pod in self._pods}

    def ranked(self, chain: ComparatorChain) -> list[tuple[tuple[Number, ...], Exposure]]:
        """Returns the pods that any action may affect, in the order of a chain, with the deciding
        keys.
        """
        found = self._ranked.get(chain)
        if found is None:
            there = [one for one in self.by_uid.values() if one.actions]
            found = [(keys, there[index]) for keys, index in chain.places([one.pod for one in there])]
            self._ranked[chain] = found
        return found


class _Allowing:
    """The actions that policies allow, cached for pods equal in all scope attributes; labels are
    checked each time.
    """

    def __init__(self, policies: Sequence[PodQosSpec]) -> None:
        self._by_label = [policy for policy in policies if policy.label_selector is not None]
        self._by_scope = [policy for policy in policies if policy.label_selector is None]
        self._known: dict[tuple[QoSClass | None, int | None, str], frozenset[str] | None] = {}

    def actions(self, pod: PodUse) -> frozenset[str] | None:
        """Returns the allowed actions; None: no policy names the pod."""
        scope = pod.qos, pod.priority, pod.namespace
        found = self._known[scope] if scope in self._known else self._known.setdefault(scope, _of(self._by_scope, pod))
        if not self._by_label:
            return found
        more = _of(self._by_label, pod)
        return more if found is None else found if more is None else found | more


def _of(policies: Sequence[PodQosSpec], pod: PodUse) -> frozenset[str] | None:
    """Returns the union of the policies' actions. A pod with exclusive CPUs is covered only by
    policies that name its class.
    """
    owns = pod.qos in OWNERS_OF_CPUS
    actions: frozenset[str] | None = None
    for policy in policies:
        if policy.matches(pod) and (not owns or pod.qos in policy.named_classes):
            actions = policy.actions if actions is None else actions | policy.actions
    return actions


def _exposure(pod: PodUse, allowing: _Allowing, tiers: frozenset[Tier]) -> Exposure:
    why = protection(pod, OWNERS_OF_CPUS, tiers)
    if why is not None:
        return Exposure(pod, frozenset(), why)
    actions = allowing.actions(pod)
    if actions is None:
        return Exposure(pod, frozenset(), protection(pod, frozenset(), tiers) or "no PodQOS names it")
    return Exposure(pod, actions)


class ActionKind(StrEnum):
    """The kind of action on a pod."""

    THROTTLE = "throttle"
    THROTTLE_MEMORY = "throttle-memory"
    RESTORE = "restore"
    RESTORE_MEMORY = "restore-memory"
    EVICT = "evict"


class Candidate(Struct, frozen=True, gc=False):
    """A pod within one demand. `gap` is the part it may help to close, None if unknown.

    Of several actions the strictest limits apply: the highest floors, the smallest step, the shortest grace.
    `keys` decided its place.
    """

    pod: PodUse
    gap: Decimal | None
    throttle: ThrottleBounds | None = None
    grace_seconds: int | None = None
    keys: tuple[Number, ...] = ()
    memory: MemoryBounds | None = None


@record(frozen=True, slots=True)
class Demand:
    """A metric above its waterline. `gap` is the largest of its rules, None if unknown, and then
    `because` says why; `waited_milli` is the part that candidates wait for within their limits and
    would take from each other.
    """

    kind: ActionKind
    metric: Metric
    rules: tuple[str, ...]
    reading: Decimal
    waterline: Decimal
    gap: Decimal | None
    candidates: tuple[Candidate, ...]
    because: str = ""
    waited_milli: Decimal = ZERO


@record(frozen=True, slots=True)
class Restorable:
    """A pod whose limits may rise: by `headroom` milli-cores in total, or (None) by a step.
    `cool_down_seconds` is the longest of its rules; without `is_covered` no rule throttles it any
    more. `restore` is the restore function of the metric that throttled it, where it has one.
    """

    pod: PodUse
    headroom: Decimal | None
    bounds: RestoreBounds
    cool_down_seconds: float = 0.0
    is_covered: bool = True
    restore: Restore | None = None


def gap_of(verdict: RuleVerdict, view: NodeReadings, excess: Decimal) -> Decimal | None:
    """Returns max(0, (1 + excess) x (reading - target)), in the unit of the metric's resource."""
    if verdict.metric is None or verdict.reading is None:
        return None
    between = verdict.metric.release(view, verdict.reading, verdict.rule.target)
    return None if between is None else max(ZERO, (1 + excess) * between)


def beyond_of(verdict: RuleVerdict, view: NodeReadings) -> Decimal:
    """Returns by how much the waterline itself is crossed, in the unit of the metric's resource; 0
    if unknown.
    """
    if verdict.metric is None or verdict.reading is None:
        return ZERO
    return max(ZERO, verdict.metric.release(view, verdict.reading, verdict.rule.waterline) or ZERO)


def headroom_of(verdict: RuleVerdict, view: NodeReadings, excess: Decimal) -> Decimal | None:
    """Returns max(0, (1 + excess) x (waterline - reading)), the inverse of the gap. None: no
    bound.
    """
    if verdict.metric is None or verdict.reading is None or not verdict.metric.throttle_quantified:
        return None
    between = verdict.metric.release(view, verdict.reading, verdict.rule.waterline)
    return None if between is None else max(ZERO, (1 + excess) * -between)


def acts(kind: ActionKind, action: PolicyAction, metric: Metric) -> bool:
    """Returns whether an action includes this kind for this metric."""
    if kind is ActionKind.THROTTLE:
        return action.throttle is not None and metric.throttleable
    return action.evicts and metric.evictable


def demands(
    kind: ActionKind,
    verdicts: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    excess: Decimal,
) -> tuple[Demand, ...]:
    """Returns a demand per metric with a triggered rule and an action of this kind; the highest
    action priority first.
    """
    by_metric: dict[str, list[RuleVerdict]] = {}
    for verdict in verdicts:
        if (
            verdict.triggered
            and verdict.metric is not None
            and acts(kind, actions[verdict.rule.action], verdict.metric)
        ):
            by_metric.setdefault(verdict.metric.name, []).append(verdict)
    made = [_demand(kind, found, actions, exposed, view, excess) for found in by_metric.values()]
    return _with_shortest_grace(sorted(made, key=lambda one: (-one.metric.action_priority, one.metric.name)))


def _with_shortest_grace(made: Sequence[Demand]) -> tuple[Demand, ...]:
    """Returns the demands with each pod's shortest applicable grace, whichever demand chooses
    it.
    """
    if len(made) < 2 or made[0].kind is not ActionKind.EVICT:
        return tuple(made)
    shortest: dict[str, int] = {}
    for one in (candidate for demand in made for candidate in demand.candidates):
        if one.grace_seconds is not None:
            shortest[one.pod.uid] = min(one.grace_seconds, shortest.get(one.pod.uid, one.grace_seconds))
    return tuple(
        replace(
            demand,
            candidates=tuple(
                candidate
                if (grace := shortest.get(candidate.pod.uid)) == candidate.grace_seconds
                else structs.replace(candidate, grace_seconds=grace)
                for candidate in demand.candidates
            ),
        )
        for demand in made
    )


def _demand(
    kind: ActionKind,
    triggered: Sequence[RuleVerdict],
    actions: Mapping[str, PolicyAction],
    exposed: Exposed,
    view: NodeReadings,
    excess: Decimal,
) -> Demand:
    metric, reading = triggered[0].metric, triggered[0].reading
    assert metric is not None  # noqa: S101 - only rules with a metric and a reading trigger
    quantified = metric.throttle_quantified if kind is ActionKind.THROTTLE else metric.evict_quantified
    asking = [actions[one.rule.action] for one in triggered]
    is_refilled = kind is ActionKind.THROTTLE and quantified and metric.refilled
    waited = _waited(metric, asking, exposed, view) if is_refilled else ZERO
    found = [gap_of(one, view, excess) if quantified else None for one in triggered]
    gaps = [(None if gap is None else gap + waited, action) for gap, action in zip(found, asking, strict=True)]
    known = [gap for gap, _ in gaps if gap is not None]
    unknown = "what has to go cannot be told now" if quantified else f"{metric.name} cannot be quantified"
    return Demand(
        kind=kind,
        metric=metric,
        rules=tuple(sorted(one.rule.key for one in triggered)),
        reading=reading or ZERO,
        waterline=min(one.rule.waterline for one in triggered),
        gap=max(known) if known else None,
        candidates=_candidates(metric, gaps, exposed),
        because="" if known else unknown,
        waited_milli=waited if known else ZERO,
    )


def _waited(metric: Metric, asking: Sequence[PolicyAction], exposed: Exposed, view: NodeReadings) -> Decimal:
    """Returns the CPU that candidates would take once one of them is throttled: what all may use
    now, less what they used. Usage of others beyond their limits is already in the reading.
    """
    waiting = [
        (exposure, container)
        for exposure in exposed.by_uid.values()
        for container in exposure.pod.containers
        if container.waiting_ratio
    ]
    if not waiting:
        return ZERO
    names = {action.name for action in asking}
    asked = (each for one, each in waiting if not names.isdisjoint(one.actions) and metric.concerns(one.pod))
    return max(ZERO, sum(map(waited_milli, asked), ZERO) - set_off(view))


def _candidates(
    metric: Metric, gaps: Sequence[tuple[Decimal | None, PolicyAction]], exposed: Exposed
) -> tuple[Candidate, ...]:
    """Returns the candidates in the metric's order. A pod's bounds depend only on its allowed
    actions, and are computed once per set of them.
    """
    asked: dict[frozenset[str], _Asked | None] = {}
    found = []
    for keys, one in exposed.ranked(metric.chain):
        if one.actions not in asked:
            asked[one.actions] = _asked(gaps, one.actions)
        what = asked[one.actions]
        if what is not None and metric.concerns(one.pod):
            found.append(Candidate(one.pod, what.gap, what.throttle, what.grace_seconds, keys))
    return tuple(found)


class _Asked(Struct, frozen=True, gc=False):
    gap: Decimal | None
    throttle: ThrottleBounds | None
    grace_seconds: int | None


def _asked(gaps: Sequence[tuple[Decimal | None, PolicyAction]], allowed: frozenset[str]) -> _Asked | None:
    """Returns the largest gap and the strictest limits over all rules whose action is allowed; None
    without one.
    """
    applicable = [(gap, action) for gap, action in gaps if action.name in allowed]
    if not applicable:
        return None
    known = [gap for gap, _ in applicable if gap is not None]
    graces = [action.grace_seconds for _, action in applicable if action.grace_seconds is not None]
    bounds = [action.throttle for _, action in applicable if action.throttle is not None]
    return _Asked(max(known) if known else None, _most_careful(bounds), min(graces, default=None))


def _most_careful(bounds: Sequence[ThrottleBounds]) -> ThrottleBounds | None:
    if len(bounds) < 2:
        return bounds[0] if bounds else None
    return ThrottleBounds(
        min_ratio=max(bound.min_ratio for bound in bounds),
        step_ratio=min(bound.step_ratio for bound in bounds),
        request_ratio=max(bound.request_ratio for bound in bounds),
        min_milli=max(bound.min_milli for bound in bounds),
        whole_steps=all(bound.whole_steps for bound in bounds),
    )
