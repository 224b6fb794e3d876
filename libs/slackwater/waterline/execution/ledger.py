"""Tracks what has been released for each metric, and what stays open for each pod to help with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from slackwater.waterline.analysis.demands import Candidate, Demand
from slackwater.waterline.facts.amounts import ZERO

Amounts = Mapping[str, Decimal]
CLOSED: Final = "the gap is closed"


class ReleaseLedger:
    """Credits by metric. Every action is credited to every metric, whichever requested it."""

    def __init__(self, released: Amounts | None = None) -> None:
        self._released: dict[str, Decimal] = dict(released or {})

    def copy(self) -> ReleaseLedger:
        return ReleaseLedger(self._released)

    def credit(self, amounts: Amounts, sign: int = 1) -> None:
        for metric, amount in amounts.items():
            self._released[metric] = self._released.get(metric, ZERO) + sign * amount

    def released(self, demand: Demand) -> Decimal:
        return self._released.get(demand.metric.name, ZERO)

    def open(self, demand: Demand) -> Decimal:
        """Returns the open part of a demand whose gap is known."""
        left = (demand.gap or ZERO) - self.released(demand)
        return left if left > ZERO else ZERO

    def left_for(self, candidate: Candidate, demand: Demand) -> Decimal:
        """Returns the open part of the gap that this pod may help with."""
        left = (candidate.gap or ZERO) - self.released(demand)
        return left if left > ZERO else ZERO

    def is_closed(self, demand: Demand) -> bool:
        """Returns whether the demand is closed: no candidate's gap is larger than the demand's.
        Never true of an unknown gap.
        """
        return demand.gap is not None and self.released(demand) >= demand.gap


def nonzero(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    return {metric: amount for metric, amount in amounts if amount > ZERO}
