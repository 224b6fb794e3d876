"""One pass over a history, several strategies side by side: each fills every offer that it would have made."""

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

TOLD_EVERY = 32
"""Periods between two words to whoever watches the progress."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to decide, under a name: the strategies that it knows, and which node follows which of them."""

    name: str
    strategies: Sequence[Strategy]
    specs: Sequence[Mapping[str, Any]]
    """What each of them says, as an operator writes it; for people."""
    which: NDArray[np.intp] | None = None
    """(nodes,) None: every node follows the first one."""

    def decide(self) -> Decide:
        """To the function that decides offers."""
        if self.which is None or len(self.strategies) == 1:
            return _Alike(self.strategies[0])
        return _ByNode(self.strategies, self.which)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A variant and what became of the history under it."""

    variant: Variant
    tally: Tally


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was replayed, and every variant: what is in force first."""

    history: History
    replayed: Sequence[Replayed]


def replay(history: History, variants: Sequence[Variant], watch: SimulationProgress) -> Sequence[Replayed]:
    """All variants see the same history and the same predictions; only what they offer differs."""
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
        if done % TOLD_EVERY == 0:
            watch.advance(TOLD_EVERY)
    watch.advance(done % TOLD_EVERY)
    return [Replayed(variant, tally) for variant, tally in zip(variants, tallies, strict=True)]


@dataclass(frozen=True, slots=True)
class _Alike:
    strategy: Strategy

    def __call__(self, fleet: FleetArrays, gates: GateRows, windows: Ints) -> FleetOffers:
        return recompute(fleet, self.strategy, gates, windows)


@dataclass(frozen=True, slots=True)
class _ByNode:
    """Every strategy decides for the whole fleet, and each node takes what its own one says."""

    strategies: Sequence[Strategy]
    which: NDArray[np.intp]

    def __call__(self, fleet: FleetArrays, gates: GateRows, windows: Ints) -> FleetOffers:
        found = [recompute(fleet, each, gates, windows) for each in self.strategies]
        after = GateRows(*(self._chosen([getattr(each.gates, name) for each in found]) for name in GateRows.__slots__))
        return FleetOffers(after.published[:, :2], after.published[:, 2:], after)

    def _chosen(self, values: Sequence[Ints]) -> Ints:
        return np.stack(values)[self.which, np.arange(len(self.which))]
