"""Totals of a history under one strategy, if every offer had been used completely.

Amounts are milli-cores of CPU and bytes of memory, in this order; times are seconds. Time is summed over nodes, so that
the shares of fleets of different sizes can be compared.
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
"""One core and one GiB in the units of amounts."""


@dataclass(frozen=True, slots=True)
class Came:
    """One period of all nodes, (nodes, 2): usage of prod, capacity, offers, and which offers changed."""

    seconds: float
    prod: Ints
    capacity: Ints
    mid: Ints
    batch: Ints
    mid_told: Flags
    batch_told: Flags

    @property
    def excess(self) -> Ints:
        """Returns by how much prod plus all offers exceeded the capacity; 0 where nothing was offered."""
        offered = self.mid + self.batch
        real = (offered > 0) & (self.capacity > 0)
        return np.where(real, np.clip(self.prod + offered - self.capacity, 0, offered), 0)

    @property
    def there(self) -> Flags:
        """Whether each node is present: an absent node has no capacity."""
        return self.capacity > 0


@dataclass(frozen=True, slots=True)
class Figures:
    """One resource over all nodes. Hours are core-hours or GiB-hours; shares are 0..1."""

    node_hours: float
    capacity_hours: float
    prod_hours: float
    batch_hours: float
    mid_hours: float
    exceeded_minutes: float
    """Node minutes in which prod plus all offers, fully used, exceeded the capacity."""
    any_node_minutes: float
    """Minutes in which this was true for at least one node."""
    excess_hours: float
    """The amount above the capacity, times its duration."""
    episodes: int
    longest_episode_minutes: float
    batch_changes_per_hour: float
    """Published offers per node and hour."""
    mid_changes_per_hour: float

    @property
    def reclaimed_hours(self) -> float:
        return self.batch_hours + self.mid_hours

    @property
    def reclaimed_share(self) -> float:
        """Share of the capacity."""
        return self.reclaimed_hours / self.capacity_hours if self.capacity_hours else 0.0

    @property
    def exceeded_share(self) -> float:
        """Share of the node minutes."""
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
    """Running sums, (nodes, 2)."""

    batch: Floats
    mid: Floats
    exceeded: Floats
    excess: Floats
    batch_changes: Ints
    mid_changes: Ints
    episodes: Ints
    running: Floats
    """Duration of the current excess, in seconds."""
    longest: Floats


class Tally:
    """Adds up periods in order of time."""

    def __init__(self, nodes: int) -> None:
        batch, mid, exceeded, excess, running, longest = (np.zeros((nodes, 2)) for _ in range(6))
        of_batch, of_mid, episodes = (np.zeros((nodes, 2), np.int64) for _ in range(3))
        self._sums = _Sums(batch, mid, exceeded, excess, of_batch, of_mid, episodes, running, longest)
        self._seconds = self._capacity = self._prod = np.zeros(2)
        self._any = np.zeros(2)
        self.capacity_hours = np.zeros((nodes, 2))
        """(nodes, 2) capacity in core-hours and GiB-hours."""
        self.film: list[tuple[Ints, Ints, Ints, Ints]] = []
        """For each period the sums over all nodes, (2,) each: prod, mid, batch, capacity."""
        self.film_exceeded: list[Ints] = []
        """For each period (2,) the number of nodes above their capacity."""

    def add(self, came: Came) -> None:
        """Adds the next period."""
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
        prod, mid, batch, capacity = (part.sum(axis=0) for part in parts)
        self.film.append((prod, mid, batch, capacity))
        self.film_exceeded.append(over.sum(axis=0))

    def figures(self, resource: int) -> Figures:
        """Returns the totals of a resource; 0: CPU, 1: memory."""
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
        """Returns (nodes, 2) core-hours and GiB-hours."""
        return (self._sums.batch + self._sums.mid) / (UNITS * HOUR_SECONDS)

    @property
    def exceeded_minutes(self) -> Floats:
        """Returns (nodes, 2) minutes."""
        return self._sums.exceeded / 60

    def worst(self, most: int) -> list[NodeFigures]:
        """Returns the nodes that exceeded their capacity longest, for either resource, at most `most`."""
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
