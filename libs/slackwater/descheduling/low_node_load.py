"""LowNodeLoad: moves pods from nodes above their high thresholds to nodes below their low ones. Pure.

A round ends for a node as soon as it is under its high thresholds, and headroom is reserved on a target for each
proposed pod. No target comes above its high thresholds, so that each move lowers the sum of what is above them, and
rounds under constant load end. Source: koordinator's LowNodeLoad; docs/decisions/0112.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial

from slackwater.descheduling.anomaly import AnomalyCondition, AnomalyState, after_round
from slackwater.descheduling.node_classes import (
    LOW_NODES,
    PROD_LOW_NODES,
    SOURCES,
    NodeClass,
    NodeLoad,
    node_loads,
    over,
)
from slackwater.descheduling.placement import (
    PODS,
    Amounts,
    ClusterPlacement,
    EvictionGate,
    EvictionProposal,
    LoadSource,
    PlacementNode,
)
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.descheduling.pod_order import in_eviction_order
from slackwater.descheduling.target_search import TargetSearch, score_of
from slackwater.descheduling.thresholds import Percents, ThresholdPair, node_score, usage_percent
from slackwater.model.records import record
from slackwater.model.tiers import Tier
from slackwater.resources.selectors import Selector

NAME = "LowNodeLoad"


class RoundEnd(StrEnum):
    """Why a round proposes nothing more."""

    NO_SOURCE = "no_source"
    NOT_ANOMALOUS = "not_anomalous"
    """Overloaded nodes, but not for enough consecutive rounds."""
    NO_TARGET = "no_target"
    NO_FIT = "no_fit"
    """There are low nodes, and none holds any pod that an overloaded node may give."""
    FEW_LOW_NODES = "few_low_nodes"
    ALL_LOW = "all_low"
    DONE = "done"


_TRIED = frozenset({RoundEnd.DONE, RoundEnd.NO_FIT})


@record(frozen=True, slots=True)
class LowNodeLoadPool:
    """Thresholds of the nodes that a selector chooses; None chooses all that no earlier pool drained."""

    name: str
    low: Percents = field(default_factory=dict)
    high: Percents = field(default_factory=dict)
    prod_low: Percents = field(default_factory=dict)
    prod_high: Percents = field(default_factory=dict)
    selector: Selector | None = None
    use_deviation: bool = False


@record(frozen=True, slots=True)
class LowNodeLoadArgs:
    """What a profile configures. Defaults as in koordinator, besides the margin."""

    pools: Sequence[LowNodeLoadPool]
    number_of_nodes: int = 0
    """Acts only with more low nodes than this."""
    node_fit: bool = True
    """Requests are checked on the target; its headroom and all hard rules of placement are in any case."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By resource; 1 by default."""
    anomaly: AnomalyCondition | None = AnomalyCondition()
    detector_cache_s: float = 300.0
    metric_expiration_s: float = 180.0
    load: LoadSource = LoadSource.MEASURED
    margin: float = 0.05
    """By how much of its weighted capacity the target must stay below the source after the move."""


@record(frozen=True, slots=True)
class LowNodeLoadPlan:
    """What a round proposes, and why not more."""

    proposals: Sequence[EvictionProposal]
    classes: Mapping[str, NodeClass]
    """By node, of the last pool that it was classified in."""
    detectors: Mapping[str, AnomalyState]
    ends: Mapping[str, RoundEnd]
    """By pool."""


def argument_problems(args: LowNodeLoadArgs) -> list[str]:
    """Returns what is wrong with the arguments. Percents above 100 are allowed, as in the field."""
    found = [] if args.number_of_nodes >= 0 else ["numberOfNodes: must not be negative"]
    condition = args.anomaly
    if condition is not None and min(condition.consecutive_abnormalities, condition.consecutive_normalities) <= 0:
        found.append("anomalyCondition: consecutive counts must be above 0")
    for pool in args.pools:
        pairs = (
            ("lowThresholds", pool.low, "highThresholds", pool.high),
            ("prodLowThresholds", pool.prod_low, "prodHighThresholds", pool.prod_high),
            ("prodHighThresholds", pool.prod_high, "highThresholds", pool.high),
        )
        for lower, below, upper, above in pairs:
            for name, percent in below.items():
                if percent < 0 or above.get(name, 0) < 0:
                    found.append(f"{pool.name}.{lower}.{name}: must not be negative")
                elif percent > above.get(name, percent):
                    found.append(f"{pool.name}.{lower}.{name}: must not be above {upper}")
    return found


def balance(
    cluster: ClusterPlacement,
    args: LowNodeLoadArgs,
    detectors: Mapping[str, AnomalyState],
    now_s: float,
    gate: EvictionGate,
) -> LowNodeLoadPlan:
    """Returns the plan of a round over all pools, in their order. Nodes without recent load are left out."""
    nodes = [node for node in cluster.nodes if _is_fresh(node, args, now_s)]
    drained: set[str] = set()
    proposals: list[EvictionProposal] = []
    classes: dict[str, NodeClass] = {}
    kept, ends = {}, {}
    rules = PlacementIndex(cluster)
    for pool in args.pools:
        loads = _loads_of(pool, select_nodes(nodes, pool.selector, drained), cluster, args)
        by_class = {load.node.name: load.node_class for load in loads}
        classes.update(by_class)
        sources, states = _anomalous(loads, by_class, args, detectors, now_s)
        kept.update(states)
        end, found = _pool_round(loads, by_class, sources, args, gate, rules)
        ends[pool.name] = end
        proposals += found
        drained |= {load.node.name for load in sources} if end in _TRIED else set()
    return LowNodeLoadPlan(proposals, classes, kept, ends)


def pool_loads(cluster: ClusterPlacement, args: LowNodeLoadArgs) -> list[NodeLoad]:
    """Returns loads and thresholds of the nodes of each pool. A node that several pools select is among all."""
    return [
        load
        for pool in args.pools
        for load in _loads_of(pool, select_nodes(cluster.nodes, pool.selector, set()), cluster, args)
    ]


def _loads_of(
    pool: LowNodeLoadPool, nodes: Sequence[PlacementNode], cluster: ClusterPlacement, args: LowNodeLoadArgs
) -> list[NodeLoad]:
    return node_loads(
        nodes,
        cluster.pods,
        ThresholdPair(pool.low, pool.high),
        ThresholdPair(pool.prod_low, pool.prod_high),
        use_deviation=pool.use_deviation,
        source=args.load,
    )


def select_nodes(nodes: Sequence[PlacementNode], selector: Selector | None, drained: set[str]) -> list[PlacementNode]:
    """Returns the nodes of a pool: those that the selector matches and no earlier pool drained; all without one."""
    if selector is None:
        return list(nodes)
    return [node for node in nodes if node.name not in drained and selector.matches(node.labels)]


def _is_fresh(node: PlacementNode, args: LowNodeLoadArgs, now_s: float) -> bool:
    return node.measured_s is None or now_s - node.measured_s < args.metric_expiration_s


def _anomalous(
    loads: Sequence[NodeLoad],
    classes: Mapping[str, NodeClass],
    args: LowNodeLoadArgs,
    detectors: Mapping[str, AnomalyState],
    now_s: float,
) -> tuple[list[NodeLoad], dict[str, AnomalyState]]:
    """Returns the source nodes that have been overloaded for long enough, and the detectors to keep. A node that is
    not overloaded has none: its count starts anew."""
    sources = [load for load in loads if classes[load.node.name] in SOURCES]
    if args.anomaly is None or args.anomaly.at_once:
        return sources, {}
    states = {
        load.node.name: after_round(
            detectors.get(load.node.name), args.anomaly, overloaded=True, cache_s=args.detector_cache_s, now_s=now_s
        )
        for load in sources
    }
    return [load for load in sources if states[load.node.name].abnormal_since_s is not None], states


def _pool_round(
    loads: Sequence[NodeLoad],
    classes: Mapping[str, NodeClass],
    sources: Sequence[NodeLoad],
    args: LowNodeLoadArgs,
    gate: EvictionGate,
    rules: PlacementIndex,
) -> tuple[RoundEnd, list[EvictionProposal]]:
    if not any(name in SOURCES for name in classes.values()):
        return RoundEnd.NO_SOURCE, []
    if not sources:
        return RoundEnd.NOT_ANOMALOUS, []
    proposals: list[EvictionProposal] = []
    last = RoundEnd.DONE
    unplaced = 0
    search = TargetSearch(
        [load for load in loads if classes[load.node.name] in LOW_NODES | PROD_LOW_NODES],
        classes,
        args.weights,
        node_fit=args.node_fit,
        margin=args.margin,
        rules=rules,
    )
    for prod, source_class, target_classes in (
        (False, NodeClass.HIGH, LOW_NODES),
        (True, NodeClass.PROD_HIGH, PROD_LOW_NODES),
    ):
        hot = [load for load in sources if classes[load.node.name] is source_class]
        targets = sum(name in target_classes for name in classes.values())
        if not hot:
            continue
        end = _gate(targets, len(loads), args)
        if end is not None:
            last = end
            continue
        weights = {name: args.weights.get(name, 1.0) for name in hot[0].high}
        hot.sort(key=lambda load: -node_score(load.prod if prod else load.usage, load.node.allocatable, weights))
        for load in hot:
            found, without_room = _relieve(load, search, args, gate, prod=prod)
            proposals += found
            unplaced += without_room
    if not proposals and unplaced:
        return RoundEnd.NO_FIT, []
    return (RoundEnd.DONE if proposals else last), proposals


def _gate(targets: int, nodes: int, args: LowNodeLoadArgs) -> RoundEnd | None:
    if not targets:
        return RoundEnd.NO_TARGET
    if targets <= args.number_of_nodes:
        return RoundEnd.FEW_LOW_NODES
    return RoundEnd.ALL_LOW if targets == nodes else None


def _relieve(
    load: NodeLoad, search: TargetSearch, args: LowNodeLoadArgs, gate: EvictionGate, *, prod: bool
) -> tuple[list[EvictionProposal], int]:
    """Proposes pods of one node until it is under its high thresholds. Returns also how many no target holds."""
    limits = load.prod_high if prod else load.high
    judged = dict(load.prod if prod else load.usage)
    usage = dict(load.usage)
    excess = excess_of(judged, limits)
    live = [pod for pod in load.pods if not pod.has_failed]
    candidates = [pod for pod in live if pod.load(args.load) is not None and (pod.tier is Tier.PROD or not prod)]
    reason = eviction_reason(judged, load.node.allocatable, limits, prod=prod)
    found, unplaced = [], 0
    for pod in in_eviction_order(candidates, excess, args.weights, args.load):
        if not over(judged, limits):
            break
        amounts = pod.load(args.load) or {}
        relieves = any(name == PODS or amounts.get(name, 0) > 0 for name in excess_of(judged, limits))
        if not relieves or not gate.allows(pod):  # the move of an idle pod would help nothing
            continue
        score = score_of(load, usage, args.weights)
        target = search.reserve(pod, amounts, score, prod=prod, accepts=partial(gate.accepts, pod))
        if target is None:
            unplaced += 1
            continue
        for each in (judged, usage):
            for name in each:
                each[name] -= 1 if name == PODS else amounts.get(name, 0)
        gate.record(pod, target)
        found.append(EvictionProposal(pod, target, NAME, reason))
    return found, unplaced


def excess_of(usage: Amounts, high: Amounts) -> dict[str, int]:
    """Returns by how much each resource is above its threshold; without those that are not."""
    return {name: usage[name] - limit for name, limit in high.items() if usage.get(name, 0) > limit}


def eviction_reason(usage: Amounts, capacity: Amounts, high: Amounts, *, prod: bool) -> str:
    """Returns what is above which threshold, as in koordinator."""
    used, limits = usage_percent(usage, capacity), usage_percent(high, capacity)
    what = "prod" if prod else "node"
    parts = [
        f"{what} {name} usage({used[name]:.2f}%)>threshold({limits[name]:.2f}%)"
        for name in sorted(excess_of(usage, high))
    ]
    return ", ".join(["node is overutilized", *parts])
