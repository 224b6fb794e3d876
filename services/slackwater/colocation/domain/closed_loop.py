"""What would have become of machines if batch had filled every offer: period by period, what was offered from all that
was known at the end of one is used to the last unit in the next, beside what prod then really used.

It is the hardest tenant there is: it takes every offer at once and gives nothing back by itself. Nobody throttles it
either (that is ensurance's work), so what goes beyond capacity here is what the offers alone would have done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from slackwater.colocation.domain.fleet import Flags, Fleet, GateRows, Ints, no_gates
from slackwater.colocation.domain.fleet_offers import FleetOffers, recompute
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.records import record

_RESOURCES = ("cpu", "memory")


@record(frozen=True, slots=True)
class Period:
    """One control period of the same nodes in the same order: what prod used in it, and what is known at its end."""

    prod: Ints
    """(nodes, 2), all that ran beside batch: system and mid with it."""
    known: Fleet
    end: int | Ints
    """Seconds since 1970: of the period, or (nodes,) of the window in which each node was measured last."""


Decide = Callable[[Fleet, GateRows, Ints], FleetOffers]
"""The offers of a fleet, given its gates and the ends of its windows."""


@record(frozen=True, slots=True)
class Step:
    """What became of one period, all (nodes, 2)."""

    mid: Ints
    batch: Ints
    """What was offered, and used, in the period."""
    over: Flags
    """Prod and the offers together were more than the capacity."""
    mid_told: Flags
    batch_told: Flags
    """Whether another offer was told at its end."""

    @property
    def taken(self) -> Ints:
        return self.mid + self.batch


class Filling:
    """One way to decide on its way through a history: what it offers now, and what becomes of it."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._gates: GateRows | None = None
        self._mid = self._batch = np.zeros((0, 2), np.int64)

    def step(self, period: Period) -> Step:
        """The next period; nothing is offered in the first one."""
        nodes = len(period.known)
        if self._gates is None:
            self._gates, self._mid, self._batch = no_gates(nodes), *(np.zeros((nodes, 2), np.int64) for _ in (0, 1))
        mid, batch = self._mid, self._batch
        offers = self._decide(period.known, self._gates, np.broadcast_to(np.asarray(period.end, np.int64), (nodes,)))
        self._gates, self._mid, self._batch = offers.gates, offers.mid, offers.batch
        over = period.prod + mid + batch > period.known.capacity
        return Step(mid, batch, over, offers.mid != mid, offers.batch != batch)


@record(frozen=True, slots=True)
class LoopFigures:
    """One resource. Periods of nodes: one node in one period is one."""

    periods: int
    exceeded: int
    longest_episode: int
    """In control periods."""
    episodes: int
    offered_share: float
    """Of capacity, over all periods: 0..1."""
    prod_share: float
    changes_per_period: float
    """Offers that were told, per node and period."""

    @property
    def exceeded_share(self) -> float:
        return self.exceeded / self.periods if self.periods else 0.0


@dataclass(slots=True)
class _Tally:
    """What has been counted so far of all nodes, (2,) by resource."""

    exceeded: Ints
    episodes: Ints
    longest: Ints
    offered: Ints
    used: Ints
    capacity: Ints
    changes: Ints
    running: Ints
    """(nodes, 2): how many periods the episode that goes on has lasted."""
    periods: int = 0


@record(frozen=True, slots=True)
class Loop:
    """Both resources."""

    cpu: LoopFigures
    memory: LoopFigures
    by_period: tuple[float, ...] = field(default=())
    """Share of nodes that were beyond capacity, of either resource, in each period."""


def closed_loop(periods: Iterable[Period], strategy: Strategy) -> Loop:
    """Nothing is offered in the first period: nothing was known before it."""
    return closed_loops(periods, [strategy])[0]


def closed_loops(periods: Iterable[Period], strategies: Sequence[Strategy]) -> Sequence[Loop]:
    """Several strategies on the same history, in one pass over it."""
    runs = [_Run(strategy) for strategy in strategies]
    for period in periods:
        for run in runs:
            run.step(period)
    return [run.loop() for run in runs]


class _Run:
    """One strategy on its way through the history, and its figures."""

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


def _decided(strategy: Strategy, fleet: Fleet, gates: GateRows, windows: Ints) -> FleetOffers:
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
