"""Snapshots of many nodes as arrays: one row per node and one row per pod.

`recompute` in `fleet_offers` decides from these; `node_offer.decide_node` is the reference for one node. Amounts are
(rows, 2): milli-cores and bytes. Zones are not included: they follow the node's offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.node_offer import Gates
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import LOWER_TIERS, NodeSnapshot, PodInput, tier_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
TIERS = ("prod", "mid", "lower")
NONE = -1
"""`published` of a gate before its first value."""


@record(frozen=True, slots=True)
class PodRows:
    """All pods of the fleet. An unknown amount is 0, with its flag unset."""

    node: NDArray[np.intp]
    tier: NDArray[np.intp]
    """Index in TIERS."""
    lse: Flags
    listed: Flags
    cold: Flags
    request: Ints
    usage: Ints
    measured: Flags
    predicted: Ints
    has_prediction: Flags
    bound_seconds: Floats
    """Seconds since the pod was bound; infinite if unknown."""


@record(frozen=True, slots=True)
class FleetArrays:
    """All nodes, and the pods on them."""

    capacity: Ints
    reserved: Ints
    allocatable: Ints
    system: Ints
    """0 if unknown."""
    system_known: Flags
    prod_apps: Ints
    """Usage of host applications of prod, and of those without a known tier."""
    mid_apps: Ints
    node_usage: Ints
    node_usage_known: Flags
    prod_peak: Ints
    prod_peak_known: Flags
    age_seconds: Floats
    lost: Flags
    pods: PodRows
    kept_mid: Ints
    """What reservations take off the offer of mid, and of batch below."""
    kept_batch: Ints

    def __len__(self) -> int:
        return len(self.capacity)


@record(frozen=True, slots=True)
class GateRows:
    """The gates of all nodes: (nodes, 4), in the order of the fields of `Gates`; `published` is NONE before the first
    value.
    """

    published: Ints
    rising_windows: Ints
    rising_to: Ints
    last_window: Ints
    drifting_since: Ints
    drifting_to: Ints

    def row(self, node: int) -> Gates:
        """Returns the gates of one node, for the per-node function."""
        return Gates(*(self._gate(node, place) for place in range(4)))

    def _gate(self, node: int, place: int) -> PublishGate:
        published, *others = (int(getattr(self, column.name)[node, place]) for column in fields(self))
        return PublishGate(None if published == NONE else published, *others)


def no_gates(nodes: int) -> GateRows:
    """Returns the gates of nodes that have offered nothing yet."""
    published, *others = (np.full((nodes, 4), NONE if number == 0 else 0, np.int64) for number in range(6))
    return GateRows(published, *others)


def fleet_of(snapshots: Sequence[NodeSnapshot]) -> FleetArrays:
    """Converts many snapshots to arrays, in their order."""

    def of(take: Callable[[NodeSnapshot], Resources | None]) -> Ints:
        return _amounts(take(snapshot) for snapshot in snapshots)

    def known(take: Callable[[NodeSnapshot], Resources | None]) -> Flags:
        return np.array([take(snapshot) is not None for snapshot in snapshots], bool)

    return FleetArrays(
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
        age_seconds=np.array([snapshot.age_seconds for snapshot in snapshots], np.float64),
        lost=np.array([snapshot.lost for snapshot in snapshots], bool),
        pods=_pod_rows(snapshots),
        kept_mid=of(lambda node: node.kept_mid),
        kept_batch=of(lambda node: node.kept_batch),
    )


def _apps(node: NodeSnapshot, *, mid: bool) -> Resources:
    usages = [app.usage for app in node.host_apps if app.tier not in LOWER_TIERS and (app.tier == "mid") is mid]
    return sum(usages, Resources())


def _pod_rows(snapshots: Sequence[NodeSnapshot]) -> PodRows:
    pods: list[PodInput] = [pod for node in snapshots for pod in node.pods]
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


def _bound(pod: PodInput) -> float:
    return float("inf") if pod.bound_seconds_ago is None else pod.bound_seconds_ago


def _amounts(values: Iterable[Resources | None]) -> Ints:
    flat = [part for value in values for part in ((value.cpu_milli, value.memory_bytes) if value else (0, 0))]
    return np.array(flat, np.int64).reshape(-1, 2)
