"""What a way of moving pods comes to: hotspots, moves, imbalance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.descheduling.move_history import RestRules, StayReason, stay_reason
from slackwater.simulation.domain.move_policies import RESOURCES, Flags, Ints

LOOP: Final = RestRules(rest_s=0.0)
"""Three moves within 24 hours, whatever a profile calls a loop."""


@dataclass(slots=True)
class MoveTally:
    """Figures over all cells that count."""

    cell_minutes: float
    hot_node_minutes: float = 0.0
    hot_minutes: float = 0.0
    """Minutes in which any node was hot."""
    overloaded_node_minutes: float = 0.0
    """Node minutes in which pods wanted more CPU or memory than the node has."""
    moves: int = 0
    back: int = 0
    """Moves to the node that the pod left the time before, or already was on."""
    loops: set[str] = field(default_factory=set)
    """Workloads that were moved three times per pod within a day."""
    imbalance: list[float] = field(default_factory=list)
    """By cell: the standard deviation of the nodes' CPU load, in 0..1 of the capacity."""
    hot_nodes: list[int] = field(default_factory=list)
    """By cell."""
    _times: dict[str, list[float]] = field(default_factory=dict)
    _left: dict[int, int] = field(default_factory=dict)

    def record_load(self, load: Ints, capacity: Ints, high: Ints) -> None:
        """Counts one cell; arrays are (nodes, 2)."""
        hot = int(np.count_nonzero((load > high).any(axis=1)))
        self.hot_nodes.append(hot)
        self.hot_node_minutes += hot * self.cell_minutes
        self.hot_minutes += self.cell_minutes * (hot > 0)
        self.overloaded_node_minutes += int(np.count_nonzero((load > capacity).any(axis=1))) * self.cell_minutes
        self.imbalance.append(float(np.std(load[:, 0] / np.maximum(capacity[:, 0], 1))))

    def record_move(self, pod: int, workload: str, source: int, target: int, now_s: float, replicas: int) -> None:
        """Counts one move."""
        self.moves += 1
        self.back += source == target or self._left.get(pod) == target
        self._left[pod] = source
        times = self._times.setdefault(workload, [])
        times.append(now_s)
        if stay_reason(self._times, workload, now_s, LOOP, replicas=replicas) is StayReason.LOOPING:
            self.loops.add(workload)

    @property
    def mean_imbalance(self) -> float:
        """The mean over the cells."""
        return float(np.mean(self.imbalance)) if self.imbalance else 0.0


@dataclass(slots=True)
class TargetTally:
    """How often no node was a target of moves, as long as nothing moves: a target takes pods, and its load is not above
    the low threshold of any resource."""

    cells: int = 0
    without: int = 0
    """Cells without a target."""
    above: list[int] = field(default_factory=lambda: [0] * len(RESOURCES))
    """By resource: cells in which every node that takes pods was above the low threshold of this resource alone."""
    loads: list[list[float]] = field(default_factory=lambda: [[] for _ in RESOURCES])
    """By resource: medians over the nodes that take pods, in 0..1 of their capacity."""

    def record_load(self, load: Ints, capacity: Ints, low: Ints, is_open: Flags) -> None:
        """Counts one cell; arrays are (nodes, 2) and (nodes,)."""
        self.cells += 1
        is_low = (load <= low)[is_open]
        self.without += not is_low.all(axis=1).any()
        for place in range(len(RESOURCES)):
            self.above[place] += not is_low[:, place].any()
            if is_open.any():
                shares = load[is_open, place] / np.maximum(capacity[is_open, place], 1)
                self.loads[place].append(float(np.median(shares)))


def bucketed(values: Sequence[float], most: int) -> list[float]:
    """Returns at most so many means of equal parts, for a picture."""
    if not values:
        return []
    return [float(np.mean(part)) for part in np.array_split(np.asarray(values, dtype=float), min(most, len(values)))]
