"""Simulates machines whose offers batch uses completely: what is offered from the data at the end of one period is used
to the last unit in the next, beside prod's real usage.

This is the worst-case tenant: it uses every offer at once and releases nothing by itself. Throttling is not simulated
(it belongs to ensurance), so usage beyond capacity is caused by the offers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from slackwater.model.records import record
from slackwater.offers.fleet import Flags, FleetArrays, GateRows, Ints, no_gates
from slackwater.offers.fleet_offers import FleetOffers, recompute
from slackwater.offers.strategy import Strategy

_RESOURCES = ("cpu", "memory")


@record(frozen=True, slots=True)
class Period:
    """One control period of the same nodes in the same order: prod's usage in it, and the data known at its end."""

    prod: Ints
    """(nodes, 2), everything that ran beside batch, including system and mid."""
    known: FleetArrays
    end: int | Ints
    """Seconds since 1970: the end of the period, or (nodes,) of the last window in which each node was measured."""


Decide = Callable[[FleetArrays, GateRows, Ints], FleetOffers]
"""Returns the offers of a fleet, given its gates and the ends of its windows."""


@record(frozen=True, slots=True)
class LoopStep:
    """The result of one period, all (nodes, 2)."""

    mid: Ints
    batch: Ints
    """Offered, and used, in the period."""
    over: Flags
    """Prod and the offers together exceeded the capacity."""
    mid_told: Flags
    batch_told: Flags
    """Whether a new offer was published at its end."""

    @property
    def taken(self) -> Ints:
        return self.mid + self.batch


class Filling:
    """Runs one decision function through a history, with its present offers and results."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._gates: GateRows | None = None
        self._mid = self._batch = np.zeros((0, 2), np.int64)

    def step(self, period: Period) -> LoopStep:
        """Runs the next period; nothing is offered in the first one."""
        nodes = len(period.known)
        if self._gates is None:
            self._gates, self._mid, self._batch = no_gates(nodes), *(np.zeros((nodes, 2), np.int64) for _ in (0, 1))
        mid, batch = self._mid, self._batch
        offers = self._decide(period.known, self._gates, np.broadcast_to(np.asarray(period.end, np.int64), (nodes,)))
        self._gates, self._mid, self._batch = offers.gates, offers.mid, offers.batch
        over = period.prod + mid + batch > period.known.capacity
        return LoopStep(mid, batch, over, offers.mid != mid, offers.batch != batch)


@record(frozen=True, slots=True)
class LoopFigures:
    """Figures of one resource, counted in node periods (one node in one period)."""

    periods: int
    exceeded: int
    longest_episode: int
    """In control periods."""
    episodes: int
    offered_share: float
    """Ratio of capacity, over all periods: 0..1."""
    prod_share: float
    changes_per_period: float
    """Published offers per node and period."""

    @property
    def exceeded_share(self) -> float:
        return self.exceeded / self.periods if self.periods else 0.0


@dataclass(slots=True)
class _Tally:
    """Running sums over all nodes, (2,) by resource."""

    exceeded: Ints
    episodes: Ints
    longest: Ints
    offered: Ints
    used: Ints
    capacity: Ints
    changes: Ints
    running: Ints
    """(nodes, 2): length of each node's open episode, in periods."""
    periods: int = 0


@record(frozen=True, slots=True)
class Loop:
    """Figures of both resources."""

    cpu: LoopFigures
    memory: LoopFigures
    by_period: tuple[float, ...] = field(default=())
    """Ratio of nodes beyond capacity, of either resource, in each period."""


def closed_loop(periods: Iterable[Period], strategy: Strategy) -> Loop:
    """Returns the figures of one strategy. Nothing is offered in the first period, because no data precedes it."""
    return closed_loops(periods, [strategy])[0]


def closed_loops(periods: Iterable[Period], strategies: Sequence[Strategy]) -> Sequence[Loop]:
    """Returns the figures of several strategies on the same history, in one pass over it."""
    runs = [_Run(strategy) for strategy in strategies]
    for period in periods:
        for run in runs:
            run.step(period)
    return [run.loop() for run in runs]


class _Run:
    """Runs one strategy through the history and collects its figures."""

    def __init__(self, strategy: Strategy) -> None:
        self._filling = Filling(partial(_decided, strategy))
        self._tally = _empty(0)
        self._beyond: list[float] = []

    def step(self, period: Period) -> None:
        nodes = len(period.known)
        if not self._beyond:
            self._tally = _empty(nodes)
        step = self._filling.step(period)
        self._beyond.append(float(step.over.any(axis=1).mean()) if nodes else 0.0)
        _count(self._tally, period, step.taken, step.over, step.mid_told | step.batch_told)

    def loop(self) -> Loop:
        cpu, memory = (_figures(self._tally, place) for place in range(len(_RESOURCES)))
        return Loop(cpu, memory, tuple(self._beyond))


def _decided(strategy: Strategy, fleet: FleetArrays, gates: GateRows, windows: Ints) -> FleetOffers:
    return recompute(fleet, strategy, gates, windows)


def _empty(nodes: int) -> _Tally:
    exceeded, episodes, longest, offered, used, capacity, changes = (np.zeros(2, np.int64) for _ in range(7))
    running = np.zeros((nodes, 2), np.int64)
    return _Tally(exceeded, episodes, longest, offered, used, capacity, changes, running)


def _count(tally: _Tally, period: Period, in_force: Ints, over: Flags, changed: Flags) -> None:
    tally.periods += len(over)
    tally.exceeded += over.sum(axis=0)
    tally.episodes += (over & (tally.running == 0)).sum(axis=0)
    tally.running = np.where(over, tally.running + 1, 0)
    if len(over):
        tally.longest = np.maximum(tally.longest, tally.running.max(axis=0))
    tally.offered += in_force.sum(axis=0)
    tally.used += period.prod.sum(axis=0)
    tally.capacity += period.known.capacity.sum(axis=0)
    tally.changes += changed.sum(axis=0)


def _figures(tally: _Tally, place: int) -> LoopFigures:
    capacity = max(1, int(tally.capacity[place]))
    return LoopFigures(
        periods=tally.periods,
        exceeded=int(tally.exceeded[place]),
        longest_episode=int(tally.longest[place]),
        episodes=int(tally.episodes[place]),
        offered_share=int(tally.offered[place]) / capacity,
        prod_share=int(tally.used[place]) / capacity,
        changes_per_period=int(tally.changes[place]) / max(1, tally.periods),
    )
