"""What became of a history under one strategy, if somebody had used every offer to its last unit.

Amounts are milli-cores and bytes, of CPU and memory in this order; times are seconds. A node in one second counts one
second, so fleets of different sizes can be compared by shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
HOUR_SECONDS = 3600.0
CORE, GIB = 1000.0, 2.0**30
UNITS = np.array([CORE, GIB])
"""What one core and one GiB are, in the units of amounts."""


@dataclass(frozen=True, slots=True)
class Came:
    """One period of all nodes, (nodes, 2): what was offered in it, whether that was too much, what changed then."""

    seconds: float
    prod: Ints
    capacity: Ints
    mid: Ints
    batch: Ints
    mid_told: Flags
    batch_told: Flags

    @property
    def excess(self) -> Ints:
        """By how much prod and all offers together were above the capacity; 0 where nothing was offered."""
        offered = self.mid + self.batch
        real = (offered > 0) & (self.capacity > 0)
        return np.where(real, np.clip(self.prod + offered - self.capacity, 0, offered), 0)

    @property
    def there(self) -> Flags:
        """A node without capacity is not there."""
        return self.capacity > 0


@dataclass(frozen=True, slots=True)
class Figures:
    """One resource of all nodes. Hours are core-hours or GiB-hours, of nodes together; shares are 0..1."""

    node_hours: float
    capacity_hours: float
    prod_hours: float
    batch_hours: float
    mid_hours: float
    exceeded_minutes: float
    """Minutes of nodes in which prod and all offers, each used to the last unit, were more than the capacity."""
    any_node_minutes: float
    """Minutes of the history in which at least one node was in that state."""
    excess_hours: float
    """How much too much that was."""
    episodes: int
    longest_episode_minutes: float
    batch_changes_per_hour: float
    """Offers that were told, for each node and hour."""
    mid_changes_per_hour: float

    @property
    def reclaimed_hours(self) -> float:
        return self.batch_hours + self.mid_hours

    @property
    def reclaimed_share(self) -> float:
        """Of the capacity."""
        return self.reclaimed_hours / self.capacity_hours if self.capacity_hours else 0.0

    @property
    def exceeded_share(self) -> float:
        """Of the node's minutes."""
        return self.exceeded_minutes / (self.node_hours * 60) if self.node_hours else 0.0

    @property
    def changes_per_hour(self) -> float:
        return self.batch_changes_per_hour + self.mid_changes_per_hour


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """One node, both resources: (2,) each."""

    node: int
    reclaimed_hours: tuple[float, float]
    exceeded_minutes: tuple[float, float]


@dataclass(slots=True)
class _Sums:
    """(nodes, 2), so far."""

    batch: Floats
    mid: Floats
    exceeded: Floats
    excess: Floats
    batch_changes: Ints
    mid_changes: Ints
    episodes: Ints
    running: Floats
    """Seconds that the episode that goes on has lasted."""
    longest: Floats


class Tally:
    """Fed with one period after the other, in the order of time."""

    def __init__(self, nodes: int) -> None:
        batch, mid, exceeded, excess, running, longest = (np.zeros((nodes, 2)) for _ in range(6))
        of_batch, of_mid, episodes = (np.zeros((nodes, 2), np.int64) for _ in range(3))
        self._sums = _Sums(batch, mid, exceeded, excess, of_batch, of_mid, episodes, running, longest)
        self._seconds = self._capacity = self._prod = np.zeros(2)
        self._any = np.zeros(2)
        self.capacity_hours = np.zeros((nodes, 2))
        """(nodes, 2) core-hours and GiB-hours that were there."""
        self.film: list[tuple[Ints, Ints, Ints, Ints]] = []
        """Of each period the sums over all nodes, (2,) each: prod, mid, batch, capacity."""
        self.film_exceeded: list[Ints] = []
        """(2,): how many nodes were beyond their capacity."""

    def add(self, came: Came) -> None:
        """The next period."""
        sums, seconds, excess = self._sums, came.seconds, came.excess
        over = excess > 0
        sums.batch += came.batch * came.there * seconds
        sums.mid += came.mid * came.there * seconds
        sums.exceeded += over * seconds
        sums.excess += excess * seconds
        sums.batch_changes += came.batch_told & came.there
        sums.mid_changes += came.mid_told & came.there
        sums.episodes += over & (sums.running == 0)
        sums.running = np.where(over, sums.running + seconds, 0.0)
        sums.longest = np.maximum(sums.longest, sums.running)
        self._seconds = self._seconds + came.there.sum(axis=0) * seconds
        self._capacity = self._capacity + came.capacity.sum(axis=0) * seconds
        self._prod = self._prod + came.prod.sum(axis=0) * seconds
        self.capacity_hours += came.capacity * seconds / (UNITS * HOUR_SECONDS)
        self._any = self._any + over.any(axis=0) * seconds
        parts = (came.prod, came.mid * came.there, came.batch * came.there, came.capacity)
        prod, mid, batch, capacity = (each.sum(axis=0) for each in parts)
        self.film.append((prod, mid, batch, capacity))
        self.film_exceeded.append(over.sum(axis=0))

    def figures(self, resource: int) -> Figures:
        """0: CPU, 1: memory."""
        sums, unit = self._sums, UNITS[resource] * HOUR_SECONDS
        hours = float(self._seconds[resource]) / HOUR_SECONDS

        def total(values: Floats | Ints) -> float:
            return float(values[:, resource].sum())

        return Figures(
            node_hours=hours,
            capacity_hours=float(self._capacity[resource]) / unit,
            prod_hours=float(self._prod[resource]) / unit,
            batch_hours=total(sums.batch) / unit,
            mid_hours=total(sums.mid) / unit,
            exceeded_minutes=total(sums.exceeded) / 60,
            any_node_minutes=float(self._any[resource]) / 60,
            excess_hours=total(sums.excess) / unit,
            episodes=int(total(sums.episodes)),
            longest_episode_minutes=float(sums.longest[:, resource].max(initial=0.0)) / 60,
            batch_changes_per_hour=total(sums.batch_changes) / hours if hours else 0.0,
            mid_changes_per_hour=total(sums.mid_changes) / hours if hours else 0.0,
        )

    @property
    def reclaimed_hours(self) -> Floats:
        """(nodes, 2) core-hours and GiB-hours."""
        return (self._sums.batch + self._sums.mid) / (UNITS * HOUR_SECONDS)

    @property
    def exceeded_minutes(self) -> Floats:
        """(nodes, 2)"""
        return self._sums.exceeded / 60

    def worst(self, most: int) -> list[NodeFigures]:
        """The nodes that were longest beyond their capacity, of either resource; only those that ever were."""
        exceeded, reclaimed = self.exceeded_minutes, self.reclaimed_hours
        order = np.argsort(-exceeded.max(axis=1), kind="stable")[:most]
        return [
            NodeFigures(
                int(node),
                (float(reclaimed[node, 0]), float(reclaimed[node, 1])),
                (float(exceeded[node, 0]), float(exceeded[node, 1])),
            )
            for node in order
            if exceeded[node].any()
        ]
