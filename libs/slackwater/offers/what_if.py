"""Offers under strategies that are not in force: the same formulas without hysteresis.

No gate holds a value back, so a difference between two results comes from the strategies alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.fleet import fleet_of, no_gates
from slackwater.offers.fleet_offers import recompute
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy


@record(frozen=True, slots=True)
class PreviewOffers:
    """What a node offers to each lower tier."""

    batch: Resources = field(default_factory=Resources)
    mid: Resources = field(default_factory=Resources)

    def __add__(self, other: PreviewOffers) -> PreviewOffers:
        return PreviewOffers(self.batch + other.batch, self.mid + other.mid)

    def differs_by(self, other: PreviewOffers, capacity: Resources) -> float:
        """Returns the largest difference of any amount, as a ratio of the node's capacity."""
        return max(
            *_shares(self.batch - other.batch, capacity),
            *_shares(self.mid - other.mid, capacity),
        )


def offers_under(snapshots: Sequence[NodeSnapshot], strategies: Sequence[Strategy]) -> list[PreviewOffers]:
    """Returns the offers of each node under its own strategy; computed together for all nodes of a strategy."""
    results = [PreviewOffers()] * len(snapshots)
    for strategy in set(strategies):
        places = [place for place, candidate in enumerate(strategies) if candidate == strategy]
        fleet = fleet_of([snapshots[place] for place in places])
        windows = fleet.capacity[:, 0] * 0
        offers = recompute(fleet, strategy, no_gates(len(places)), windows)
        for row, place in enumerate(places):
            batch, mid = offers.batch[row], offers.mid[row]
            results[place] = PreviewOffers(Resources(int(batch[0]), int(batch[1])), Resources(int(mid[0]), int(mid[1])))
    return results


def _shares(difference: Resources, capacity: Resources) -> tuple[float, float]:
    return (
        abs(difference.cpu_milli) / max(1, capacity.cpu_milli),
        abs(difference.memory_bytes) / max(1, capacity.memory_bytes),
    )
