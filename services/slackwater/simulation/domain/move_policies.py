"""Ways to move pods of a replayed cluster: not at all, by thresholds alone, and by a DeschedulerProfile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.descheduling.move_history import Moves, with_moves
from slackwater.descheduling.placement import PODS, ClusterPlacement, PlacedPod, PlacementNode
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.profile_cycle import run_profile
from slackwater.model.tiers import Tier

RESOURCES: Final = ("cpu", "memory")
MOST_PODS: Final = 1 << 20
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ReplayedCluster:
    """Nodes and pods of a trace. Amounts are (…, 2): milli-cores and bytes."""

    nodes: Sequence[str]
    capacity: Ints
    """(nodes, 2)"""
    pods: Sequence[str]
    workloads: Sequence[str]
    """By pod."""
    limits: Ints
    """(pods, 2)"""


@dataclass(frozen=True, slots=True)
class MoveScene:
    """One cell: where pods are and what they use."""

    now_s: float
    at: Rows
    """(pods,) index of the node."""
    there: Flags
    """(pods,)"""
    usage: Ints
    """(pods, 2)"""
    peak: Ints
    """(pods, 2) the most that each used in the last day."""


class MovePolicy(Protocol):
    """Decides at the end of a cell."""

    name: str

    def moves(self, scene: MoveScene) -> Sequence[tuple[int, int]]:
        """Returns pods and the nodes that they go to."""
        ...


class StillPolicy:
    """Nothing moves."""

    name = "nothing"

    def moves(self, scene: MoveScene) -> Sequence[tuple[int, int]]:
        return ()


class ThresholdPolicy:
    """As the field's plain strategy: pods of a node above a high threshold are evicted until it is under, if any node
    is below its low ones; the largest first. A scheduler puts each where least is requested; a pod that terminates
    still counts where it was. Nothing is reserved, and nothing rests."""

    name = "thresholds"

    def __init__(self, cluster: ReplayedCluster, low: Ints, high: Ints) -> None:
        """`low`, `high`: (nodes, 2) amounts."""
        self._cluster = cluster
        self._low = low
        self._high = high

    def moves(self, scene: MoveScene) -> Sequence[tuple[int, int]]:
        load = node_sums(scene.at, scene.there, scene.usage, len(self._cluster.nodes))
        requested = node_sums(scene.at, scene.there, self._cluster.limits, len(self._cluster.nodes))
        if not (load <= self._low).all(axis=1).any():
            return ()
        found: list[tuple[int, int]] = []
        for node in np.flatnonzero((load > self._high).any(axis=1)).tolist():
            pods = np.flatnonzero((scene.at == node) & scene.there)
            for pod in pods[np.argsort(-scene.usage[pods, 0], kind="stable")].tolist():
                if (load[node] <= self._high[node]).all():
                    break
                load[node] -= scene.usage[pod]
                shares = requested / np.maximum(self._cluster.capacity, 1)
                target = int(np.argmin(shares.mean(axis=1)))
                requested[target] += self._cluster.limits[pod]
                found.append((pod, target))
        return found


class ProfilePolicy:
    """What the service does: cycles of a profile, with reserved room, rest and loop detector."""

    def __init__(self, name: str, profile: DeclaredProfile, cluster: ReplayedCluster) -> None:
        self.name = name
        self._profile = profile
        self._cluster = cluster
        self._last_s: float | None = None
        self._detectors: Mapping[str, AnomalyState] = {}
        self._history: Moves = {}
        self._index = {node: place for place, node in enumerate(cluster.nodes)}
        self.refusals: Counter[str] = Counter()
        self.ends: Counter[tuple[str, RoundEnd]] = Counter()
        """Cycles by pool of lowNodeLoad and why it proposed nothing more."""

    def moves(self, scene: MoveScene) -> Sequence[tuple[int, int]]:
        if self._last_s is not None and scene.now_s - self._last_s < self._profile.interval_s:
            return ()
        self._last_s = scene.now_s
        placement = placement_in(self._cluster, scene)
        plan = run_profile(placement, self._profile, self._detectors, self._history, scene.now_s)
        self._detectors = plan.detectors
        self.refusals.update(plan.refusals)
        self.refusals.update(plan.dropped.values())
        self.ends.update(plan.ends.items())
        moved = Counter(move.pod.workload for move in plan.moves)
        self._history = with_moves(self._history, moved, scene.now_s, self._profile.rest)
        return [(int(move.pod.uid), self._index[move.target]) for move in plan.moves if move.target]


def node_sums(at: Rows, there: Flags, amounts: Ints, nodes: int) -> Ints:
    """Returns (nodes, 2) the sums of the pods that are there."""
    rows = np.flatnonzero(there)
    sums = np.zeros((nodes, len(RESOURCES)), np.int64)
    np.add.at(sums, at[rows], amounts[rows])
    return sums


def placement_in(cluster: ReplayedCluster, scene: MoveScene) -> ClusterPlacement:
    """Returns the cell as descheduling reads it. A trace has no requests: a pod fits by its load. A node with a pod
    that has no sample takes none, because that pod comes back."""
    unknown = {int(node) for node in scene.at[~scene.there]}
    nodes = [
        PlacementNode(name, {**_amounts(cluster.capacity[place]), PODS: MOST_PODS}, unschedulable=place in unknown)
        for place, name in enumerate(cluster.nodes)
    ]
    pods: dict[str, list[PlacedPod]] = {name: [] for name in cluster.nodes}
    for pod in np.flatnonzero(scene.there).tolist():
        node = cluster.nodes[scene.at[pod]]
        pods[node].append(
            PlacedPod(
                uid=str(pod),
                name=cluster.pods[pod],
                namespace="trace",
                node=node,
                workload=cluster.workloads[pod],
                owner_kinds=("Trace",),
                tier=Tier.PROD,
                usage=_amounts(scene.usage[pod]),
                peak=_amounts(scene.peak[pod]),
            )
        )
    return ClusterPlacement(nodes, pods)


def _amounts(row: Ints) -> dict[str, int]:
    return dict(zip(RESOURCES, row.tolist(), strict=True))
