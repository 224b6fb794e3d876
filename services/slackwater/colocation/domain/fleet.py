"""Many nodes at once, as arrays: what their snapshots say, one row a node and one row a pod.

`recompute` in `fleet_offers` decides from these; `node_offer.decide_node` says the same of one node and is the truth of
it. Amounts are (rows, 2): milli-cores and bytes. Zones are not here: they follow the node's offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from slackwater.colocation.domain.gating import Gate
from slackwater.colocation.domain.node_offer import Gates
from slackwater.colocation.domain.snapshot import LOWER_TIERS, NodeSnapshot, PodUse, tier_of
from slackwater.model.quantities import Resources
from slackwater.model.records import record

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
TIERS = ("prod", "mid", "lower")
NONE = -1
"""Of a gate that has published nothing yet."""


@record(frozen=True, slots=True)
class PodRows:
    """All pods of the fleet; an amount that is not known is 0, and its flag says so."""

    node: NDArray[np.intp]
    tier: NDArray[np.intp]
    """Place in TIERS."""
    lse: Flags
    listed: Flags
    cold: Flags
    request: Ints
    usage: Ints
    measured: Flags
    predicted: Ints
    has_prediction: Flags
    bound_seconds: Floats
    """How long ago; infinite where that is not known."""


@record(frozen=True, slots=True)
class Fleet:
    """All nodes, and the pods on them."""

    capacity: Ints
    reserved: Ints
    allocatable: Ints
    system: Ints
    """0 where it is not known."""
    system_known: Flags
    prod_apps: Ints
    """Usage of host applications of prod, and of those whose tier nobody named."""
    mid_apps: Ints
    node_usage: Ints
    node_usage_known: Flags
    prod_peak: Ints
    prod_peak_known: Flags
    age_seconds: Floats
    lost: Flags
    pods: PodRows

    def __len__(self) -> int:
        return len(self.capacity)


@record(frozen=True, slots=True)
class GateRows:
    """The gates of all nodes: (nodes, 4), in the order of the fields of `Gates`; `published` NONE before the first."""

    published: Ints
    rising_windows: Ints
    rising_to: Ints
    last_window: Ints
    drifting_since: Ints
    drifting_to: Ints

    def row(self, node: int) -> Gates:
        """Of one node, as the per-node function has them."""
        return Gates(*(self._gate(node, place) for place in range(4)))

    def _gate(self, node: int, place: int) -> Gate:
        published, *others = (int(getattr(self, each.name)[node, place]) for each in fields(self))
        return Gate(None if published == NONE else published, *others)


def no_gates(nodes: int) -> GateRows:
    """Of nodes that offered nothing yet."""
    published, *others = (np.full((nodes, 4), NONE if number == 0 else 0, np.int64) for number in range(6))
    return GateRows(published, *others)


def gate_rows(gates: Sequence[Gates]) -> GateRows:
    """The arrays of many nodes' gates."""
    rows = [[(each.mid_cpu, each.mid_memory, each.batch_cpu, each.batch_memory)] for each in gates]
    found = no_gates(len(gates))
    for node, (four,) in enumerate(rows):
        for place, gate in enumerate(four):
            for each in fields(found):
                value = getattr(gate, each.name)
                getattr(found, each.name)[node, place] = NONE if value is None else value
    return found


def fleet_of(snapshots: Sequence[NodeSnapshot]) -> Fleet:
    """The arrays of many snapshots, in their order."""

    def of(take: Callable[[NodeSnapshot], Resources | None]) -> Ints:
        return _amounts(take(each) for each in snapshots)

    def known(take: Callable[[NodeSnapshot], Resources | None]) -> Flags:
        return np.array([take(each) is not None for each in snapshots], bool)

    return Fleet(
        capacity=of(lambda node: node.capacity),
        reserved=of(lambda node: node.reserved),
        allocatable=of(lambda node: node.allocatable or (node.capacity - node.reserved).at_least_zero()),
        system=of(lambda node: node.system),
        system_known=known(lambda node: node.system),
        prod_apps=of(lambda node: _apps(node, mid=False)),
        mid_apps=of(lambda node: _apps(node, mid=True)),
        node_usage=of(lambda node: node.node_usage),
        node_usage_known=known(lambda node: node.node_usage),
        prod_peak=of(lambda node: node.prod_peak),
        prod_peak_known=known(lambda node: node.prod_peak),
        age_seconds=np.array([each.age_seconds for each in snapshots], np.float64),
        lost=np.array([each.lost for each in snapshots], bool),
        pods=_pod_rows(snapshots),
    )


def _apps(node: NodeSnapshot, *, mid: bool) -> Resources:
    usages = [app.usage for app in node.host_apps if app.tier not in LOWER_TIERS and (app.tier == "mid") is mid]
    return sum(usages, Resources())


def _pod_rows(snapshots: Sequence[NodeSnapshot]) -> PodRows:
    pods: list[PodUse] = [pod for node in snapshots for pod in node.pods]
    place = {"prod": 0, "mid": 1, "batch": 2, "free": 2}
    return PodRows(
        node=np.repeat(np.arange(len(snapshots)), [len(node.pods) for node in snapshots]),
        tier=np.array([place[tier_of(pod.tier)] for pod in pods], np.intp),
        lse=np.array([pod.qos == "LSE" for pod in pods], bool),
        listed=np.array([pod.listed for pod in pods], bool),
        cold=np.array([pod.cold for pod in pods], bool),
        request=_amounts(pod.request for pod in pods),
        usage=_amounts(pod.usage for pod in pods),
        measured=np.array([pod.usage is not None for pod in pods], bool),
        predicted=_amounts(pod.predicted for pod in pods),
        has_prediction=np.array([pod.predicted is not None for pod in pods], bool),
        bound_seconds=np.array([_bound(pod) for pod in pods], np.float64),
    )


def _bound(pod: PodUse) -> float:
    return float("inf") if pod.bound_seconds_ago is None else pod.bound_seconds_ago


def _amounts(values: Iterable[Resources | None]) -> Ints:
    flat = [part for each in values for part in ((each.cpu_milli, each.memory_bytes) if each else (0, 0))]
    return np.array(flat, np.int64).reshape(-1, 2)
