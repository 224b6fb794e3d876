"""peak.predicted: what a node's owners are expected to need at their peak. Last value per node."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import (
    Amount,
    Count,
    Items,
    Mapped,
    Moment,
    Name,
    Ratio,
    Seconds,
    SecondsDifference,
    WindowSeconds,
)
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class PodPeak:
    """The predicted peak of one pod; `cold_start` when the model has not seen enough and the request stands in."""

    uid: Name
    workload: Name
    tier: Name
    peak: Resources
    cold_start: bool


Cause = Literal["", "first", "report", "diff", "force"]
"""Why a prediction was published just then: the node's first, the regular report, a value that differs from the last
published by more than the policy's threshold, or a last one that got too old. Empty: not said (before it was kept)."""


@record(frozen=True, slots=True)
class Calibration:
    """How good the model of one resource has been in the node's pool, and what it was asked to be.

    `model` is in force by generation `generation` of the policy `policy`, the cluster's or the pool's. `stated_rate` is
    the share of 24 h windows that may go above the peak, None where a margin was chosen instead of a rate.
    `measured_rate` is the share of finished 24 h windows that did, None while none is finished; `machine_days` is how
    much stands behind it: finished windows in days of one machine. `knob` is the insured part of the risk in force
    (see docs/how-to/choose-a-model.md), None for models without one. Rates are ratios (0..1).
    """

    model: Name
    version: Name = ""
    stated_rate: Ratio | None = None
    measured_rate: Ratio | None = None
    machine_days: Seconds = 0.0
    knob: Amount | None = None
    policy: Name = ""
    generation: Count = 0


class PeakPredicted(Payload):
    """Peaks of the node, of each tier that has pods, of the system and of each pod, after one more window.

    `prod_peak` and `prod_reclaimable` combine the pod view and the tier view, the safer of both.
    `window_number` is the last window folded; `samples` how many windows the node's model has seen;
    `cold_start_share` the share (0..1) of prod requests that still stand in for a prediction.
    `model` and `version` are those of the CPU peak, `calibrations` has them by resource (`cpu`, `memory`).
    `confidence` (0..1) is the share of the prod pods' limits (requests where there are none) that the models know, the
    smaller of both resources; `sample_age_seconds` how old the newest sample was when this was predicted.
    A body from before these fields existed has their defaults: an empty version, nothing known about the rest.
    """

    TYPE: ClassVar[str] = "peak.predicted"
    STREAM: ClassVar[str] = "STATE"

    node: Name
    predicted_at: Moment
    window_number: Count
    window_seconds: WindowSeconds
    model: Name
    samples: Count
    cold_start_share: Ratio
    node_peak: Resources
    system_peak: Resources
    tier_peaks: Mapped[Resources]
    prod_peak: Resources
    prod_reclaimable: Resources
    pods: Items[PodPeak]
    decision_id: Name
    version: Name = ""
    confidence: Ratio = 0.0
    sample_age_seconds: SecondsDifference = 0.0
    cause: Cause = ""
    calibrations: Mapped[Calibration] = Field(default_factory=dict)

    def key(self) -> str:
        return self.node
