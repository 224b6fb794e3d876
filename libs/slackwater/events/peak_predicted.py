"""peak.predicted: what a node's owners are expected to need at their peak. Last value per node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.quantities import Resources


@dataclass(frozen=True, slots=True)
class PodPeak:
    """The predicted peak of one pod; `cold_start` when the model has not seen enough and the request stands in."""

    uid: str
    workload: str
    tier: str
    peak: Resources
    cold_start: bool


class PeakPredicted(Payload):
    """Peaks of the node, of each tier that has pods, of the system and of each pod, after one more window.

    `prod_peak` and `prod_reclaimable` combine the pod view and the tier view, the safer of both.
    `window_number` is the last window folded; `samples` how many windows the node's model has seen;
    `cold_start_share` the share (0..1) of prod requests that still stand in for a prediction.
    """

    TYPE: ClassVar[str] = "peak.predicted"
    STREAM: ClassVar[str] = "STATE"

    node: str
    predicted_at: datetime
    window_number: int
    window_seconds: int
    model: str
    samples: int
    cold_start_share: float
    node_peak: Resources
    system_peak: Resources
    tier_peaks: dict[str, Resources]
    prod_peak: Resources
    prod_reclaimable: Resources
    pods: tuple[PodPeak, ...]
    decision_id: str

    def key(self) -> str:
        return self.node
