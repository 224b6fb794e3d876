"""One round of the peer's LowNodeLoad in a readable form, by which a case that differs is explained.

Each name in `OURS` is a row of docs/differences.md: with all of them the round decides as the product does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.descheduling.low_node_load import LowNodeLoadArgs, excess_of
from slackwater.descheduling.node_classes import LOW_NODES, PROD_LOW_NODES, SOURCES, NodeClass, NodeLoad, over
from slackwater.descheduling.placement import PODS, PlacedPod, admits, free_for_requests, requests_fit
from slackwater.descheduling.pod_order import in_eviction_order
from slackwater.descheduling.thresholds import node_score
from slackwater.model.tiers import Tier

OURS = ("prod-room-on-the-target", "headroom-of-what-moves", "unread-rules-stay", "idle-pods-stay", "low-nodes-by-load")
Evicts = Callable[[PlacedPod], bool]


@dataclass
class _Room:
    """Of one target: what is below its high thresholds, and what its requests leave."""

    load: NodeLoad
    node: dict[str, int]
    prod: dict[str, int]
    free: dict[str, int] = field(default_factory=dict)


def round_of(
    loads: Sequence[NodeLoad], args: LowNodeLoadArgs, may_move: Evicts, evicts: Evicts, ours: Collection[str]
) -> list[str]:
    """Names of the pods that are evicted, with our way for the differences in `ours`."""
    classes = {load.node.name: load.node_class for load in loads}
    if not any(each in SOURCES for each in classes.values()):
        return []
    gone: list[str] = []
    rooms = [_room(load) for load in loads if classes[load.node.name] in LOW_NODES | PROD_LOW_NODES]
    for prod, source, target in ((False, NodeClass.HIGH, LOW_NODES), (True, NodeClass.PROD_HIGH, PROD_LOW_NODES)):
        counted = target if "low-nodes-by-load" in ours else LOW_NODES | PROD_LOW_NODES
        low = sum(each in counted for each in classes.values())
        targets = [room for room in rooms if classes[room.load.node.name] in target]
        if not targets or low <= args.number_of_nodes or low == len(loads):
            continue
        hot = [load for load in loads if classes[load.node.name] is source]
        weights = {name: args.weights.get(name, 1.0) for load in hot for name in load.high}
        hot.sort(key=lambda load: -node_score(load.prod if prod else load.usage, load.node.allocatable, weights))
        budget = _budget(targets, classes, prod=prod)
        for load in hot:
            gone += _relieved(load, targets, budget, args, may_move, evicts, ours, prod=prod)
    return gone


def _room(load: NodeLoad) -> _Room:
    left = [
        {name: limit - used.get(name, 0) for name, limit in limits.items()}
        for used, limits in ((load.usage, load.high), (load.prod, load.prod_high))
    ]
    return _Room(load, *left, dict(free_for_requests(load.node, load.pods)))


def _budget(targets: Sequence[_Room], classes: Mapping[str, NodeClass], *, prod: bool) -> dict[str, int]:
    """What all targets may take together."""
    names = {name for room in targets for name in (room.prod if prod else room.node)}
    return {name: sum((room.prod if prod else room.node).get(name, 0) for room in targets) for name in names}


def _need(pod: PlacedPod, names: Collection[str]) -> dict[str, int]:
    return {name: 1 if name == PODS else (pod.usage or {}).get(name, 0) for name in names}


def _reserve(pod: PlacedPod, targets: Sequence[_Room], ours: Collection[str], *, prod: bool, requests: bool) -> bool:
    """Takes the room of the first target that holds the pod, as the peer does for each pod that may go."""
    for room in targets:
        need = _need(pod, room.node)
        both = "prod-room-on-the-target" in ours
        checked = [room.node] if both or not prod else []
        checked += [room.prod] if prod or (both and pod.tier is Tier.PROD) else []
        if any(left.get(name, 0) < amount for left in checked for name, amount in need.items() if name in left):
            continue
        if requests and not (admits(room.load.node, pod) and requests_fit(room.free, pod)):
            continue
        for left in (room.node, *([room.prod] if pod.tier is Tier.PROD else [])):
            for name in left:
                left[name] -= need.get(name, 0)
        if "headroom-of-what-moves" in ours:
            for name, amount in {**pod.requests, PODS: 1}.items():
                room.free[name] = room.free.get(name, 0) - amount
        return True
    return False


def _relieved(
    load: NodeLoad,
    targets: Sequence[_Room],
    budget: dict[str, int],
    args: LowNodeLoadArgs,
    may_move: Evicts,
    evicts: Evicts,
    ours: Collection[str],
    *,
    prod: bool,
) -> list[str]:
    limits, judged = (load.prod_high, dict(load.prod)) if prod else (load.high, dict(load.usage))
    late = "headroom-of-what-moves" in ours
    checks = args.node_fit or "unread-rules-stay" in ours

    def has_room(pod: PlacedPod) -> bool:
        if not checks:
            return True
        return pod.usage is not None and _reserve(pod, targets, ours, prod=prod, requests=args.node_fit)

    pods = [pod for pod in load.pods if not pod.has_failed and (pod.tier is Tier.PROD or not prod) and may_move(pod)]
    removable = [pod for pod in pods if late or has_room(pod)]
    gone = []
    for pod in in_eviction_order(removable, excess_of(judged, limits), args.weights, args.load):
        if not over(judged, limits) or (not late and any(left <= 0 for left in budget.values())):
            break
        need = _need(pod, judged)
        relieves = any(need[name] > 0 for name in excess_of(judged, limits))
        if "idle-pods-stay" in ours and not relieves:
            continue
        if (late and not has_room(pod)) or not evicts(pod):
            continue
        for left in (judged, budget):
            for name in left:
                left[name] -= need.get(name, 0)
        gone.append(pod.name)
    return gone
