"""What nodes would offer under strategies that nobody follows yet: the same formulas, without what went before.

No gate holds a value back here, so a difference between two answers is one between the strategies alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from slackwater.colocation.domain.fleet import fleet_of, no_gates
from slackwater.colocation.domain.fleet_offers import recompute
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Offers:
    """What a node offers to each lower tier."""

    batch: Resources = field(default_factory=Resources)
    mid: Resources = field(default_factory=Resources)

    def __add__(self, other: Offers) -> Offers:
        return Offers(self.batch + other.batch, self.mid + other.mid)

    def differs_by(self, other: Offers, capacity: Resources) -> float:
        """The largest difference of any of it, as a share of the node's capacity."""
        return max(
            *_shares(self.batch - other.batch, capacity),
            *_shares(self.mid - other.mid, capacity),
        )


def offers_under(snapshots: Sequence[NodeSnapshot], strategies: Sequence[Strategy]) -> list[Offers]:
    """One answer for each node, each under its own strategy; computed for all nodes of a strategy in one go."""
    found = [Offers()] * len(snapshots)
    for strategy in set(strategies):
        places = [place for place, one in enumerate(strategies) if one == strategy]
        fleet = fleet_of([snapshots[place] for place in places])
        windows = fleet.capacity[:, 0] * 0
        offers = recompute(fleet, strategy, no_gates(len(places)), windows)
        for row, place in enumerate(places):
            batch, mid = offers.batch[row], offers.mid[row]
            found[place] = Offers(Resources(int(batch[0]), int(batch[1])), Resources(int(mid[0]), int(mid[1])))
    return found


def _shares(difference: Resources, capacity: Resources) -> tuple[float, float]:
    return (
        abs(difference.cpu_milli) / max(1, capacity.cpu_milli),
        abs(difference.memory_bytes) / max(1, capacity.memory_bytes),
    )
