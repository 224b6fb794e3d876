"""Replays a history once under several strategies; all offers count as fully used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.offers.closed_loop import Decide, Filling
from slackwater.offers.fleet import FleetArrays, GateRows, Ints
from slackwater.offers.fleet_offers import FleetOffers, recompute
from slackwater.offers.strategy import Strategy
from slackwater.simulation.domain.tally import Came, Tally
from slackwater.simulation.ports import History, SimulationProgress

PROGRESS_STEPS = 32
"""Periods between two updates of the progress display."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A named variant: its strategies, and the strategy of each node."""

    name: str
    strategies: Sequence[Strategy]
    specs: Sequence[Mapping[str, Any]]
    """The settings of each strategy as written in a document, for display."""
    which: NDArray[np.intp] | None = None
    """(nodes,) index of the strategy of each node; None: every node follows the first one."""

    def decide(self) -> Decide:
        """Returns the function that decides offers."""
        if self.which is None or len(self.strategies) == 1:
            return _Alike(self.strategies[0])
        return _ByNode(self.strategies, self.which)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A variant with its totals."""

    variant: Variant
    tally: Tally


@dataclass(frozen=True, slots=True)
class Simulation:
    """The history and every replayed variant; the first is the one in force."""

    history: History
    replayed: Sequence[Replayed]


def replay(history: History, variants: Sequence[Variant], watch: SimulationProgress) -> Sequence[Replayed]:
    """Replays all variants. They receive the same history and predictions and differ only in their offers."""
    fillings = [Filling(variant.decide()) for variant in variants]
    tallies = [Tally(len(history.nodes)) for _ in variants]
    watch.begin("replaying", history.steps)
    done = 0
    for done, period in enumerate(history.periods(), 1):
        for filling, tally in zip(fillings, tallies, strict=True):
            step = filling.step(period)
            if done > history.first:
                tally.add(
                    Came(
                        seconds=history.period_seconds,
                        prod=period.prod,
                        capacity=period.known.capacity,
                        mid=step.mid,
                        batch=step.batch,
                        mid_told=step.mid_told,
                        batch_told=step.batch_told,
                    )
                )
        if done % PROGRESS_STEPS == 0:
            watch.advance(PROGRESS_STEPS)
    watch.advance(done % PROGRESS_STEPS)
    return [Replayed(variant, tally) for variant, tally in zip(variants, tallies, strict=True)]


@dataclass(frozen=True, slots=True)
class _Alike:
    strategy: Strategy

    def __call__(self, fleet: FleetArrays, gates: GateRows, windows: Ints) -> FleetOffers:
        return recompute(fleet, self.strategy, gates, windows)


@dataclass(frozen=True, slots=True)
class _ByNode:
    """Every strategy decides for the whole fleet, and each node takes the result of its own strategy."""

    strategies: Sequence[Strategy]
    which: NDArray[np.intp]

    def __call__(self, fleet: FleetArrays, gates: GateRows, windows: Ints) -> FleetOffers:
        found = [recompute(fleet, strategy, gates, windows) for strategy in self.strategies]
        after = GateRows(*(self._chosen([getattr(each.gates, name) for each in found]) for name in GateRows.__slots__))
        return FleetOffers(after.published[:, :2], after.published[:, 2:], after)

    def _chosen(self, values: Sequence[Ints]) -> Ints:
        return np.stack(values)[self.which, np.arange(len(self.which))]
