"""Upper bounds of concurrent actions, regardless of the gaps."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

AFTER_GRACE_SECONDS: Final = 30.0
"""Upper bound between the end of the grace period and the eviction's completion event."""


@dataclass(frozen=True, slots=True)
class ActionLimits:
    """None: no bound.

    evictions_per_cycle, evictions_per_hour  on one node
    underway_seconds  an eviction that takes longer is no longer credited; see `credited_seconds`
    retry_seconds     after a refusal the pod is left alone for so long
    answer_seconds    where others evict: an eviction that is not accepted within it is given up, and the next is taken.
                      None: whatever plans begins its evictions itself, so that they are accepted at once
    blanket_throttles, blanket_evictions  pods per cycle that may be acted on for all metrics that cannot be quantified
    blanket_step_ratio  and how far each of them is then throttled
    smallest_milli      what is left of a gap below it is not worth a write,
    smallest_of_a_pod_milli  nor is a cut of one pod below this: many small pods close a large gap together
    """

    evictions_per_cycle: int | None = 3
    evictions_per_hour: int | None = 20
    underway_seconds: float = 120.0
    retry_seconds: float = 60.0
    answer_seconds: float | None = None
    blanket_throttles: int = 2
    blanket_evictions: int = 0
    blanket_step_ratio: Decimal = Decimal("0.2")
    smallest_milli: int = 0
    smallest_of_a_pod_milli: int = 0

    def credited_seconds(self, grace_seconds: float | None) -> float:
        """Returns how long an eviction with this grace (None: the default) counts as under way: the
        longest it may take.
        """
        return max(self.underway_seconds, (grace_seconds or 0.0) + AFTER_GRACE_SECONDS)
