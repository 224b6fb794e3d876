"""Parameters of a node's closed loop: waiting times and restore steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SMALLEST_OF_A_POD_MILLI: Final = 10


@dataclass(frozen=True, slots=True)
class LoopPolicy:
    """Ratios are 0..1 of the node's capacity unless they say otherwise.

    min_change_ratio      a change of the node that is smaller is not worth a write; of a pod, 10 milli-cores
    step_ratio            is given back per cycle
    release_ratio         prod usage at or below this share of its demand at the trigger: the demand is gone
    headroom_margin_ratio stays idle when limits rise while the demand is still high
    settle_seconds        a sample counts only if it ends this long after the last write was observed
    pending_seconds       an unconfirmed write is no longer waited for after this time
    relapse_seconds       a trigger this soon after a raise is attributed to it: the next ones come later and smaller
    probe_seconds         calm for so long allows small raises, up to the originals, whatever prod uses:
    probe_ratio           this much per cycle
    """

    min_change_ratio: float = 0.01
    step_ratio: float = 0.5
    release_ratio: float = 0.7
    headroom_margin_ratio: float = 0.05
    settle_seconds: float = 0.5
    pending_seconds: float = 10.0
    relapse_seconds: float = 10.0
    probe_seconds: float = 60.0
    probe_ratio: float = 0.05

    def smallest_milli(self, capacity_milli: int) -> int:
        """Returns the smallest gap or headroom of a node that is worth a write."""
        return max(1, int(self.min_change_ratio * capacity_milli))

    def smallest_of_a_pod_milli(self, capacity_milli: int) -> int:
        """Returns the smallest change of one pod. On a large node a hundredth of the CPU exceeds
        many a pod's limit, and all pods together are the capacity that can be taken.
        """
        return min(self.smallest_milli(capacity_milli), SMALLEST_OF_A_POD_MILLI)
