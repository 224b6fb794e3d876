"""peak.predicted: the predicted peak usage of a node, its tiers and its pods. Last value per node."""

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
    """The predicted peak of one pod; with `cold_start` the request is used, because the model has too few samples."""

    uid: Name
    workload: Name
    tier: Name
    peak: Resources
    cold_start: bool


Cause = Literal["", "first", "report", "diff", "force"]
"""Why the prediction was published: the first of the node, the periodic report, a difference to the last published
value above the policy's threshold, or the age of the last one. Empty in bodies from before this field existed."""


@record(frozen=True, slots=True)
class Calibration:
    """Stated and measured accuracy of the model of one resource in the node's pool.

    `model` is in force by generation `generation` of the policy `policy`, the cluster's or the pool's. `stated_rate` is
    the share of 24 h windows that may exceed the peak, None if a margin is configured instead of a rate.
    `measured_rate` is the share of finished 24 h windows that did, None before the first one is finished;
    `machine_days` is its sample size: finished windows in days of one machine. `knob` is the insured part of the risk
    in force (see docs/how-to/choose-a-model.md), None for models without one. Rates are ratios (0..1).
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
    """Peaks of the node, of each tier with pods, of the system and of each pod, after a window was folded.

    `prod_peak` and `prod_reclaimable` are the more conservative of the estimates by pod and by tier. `window_number` is
    the last window folded, `samples` the number of windows folded into the node's model, `cold_start_share` the share
    (0..1) of prod requests that are used in place of a prediction. `model` and `version` are those of the CPU peak,
    `calibrations` has them by resource (`cpu`, `memory`). `confidence` (0..1) is the share of the prod pods' limits (or
    requests) for which a model exists, the smaller of both resources. `sample_age_seconds` is the age of the newest
    sample at the time of the prediction. Bodies from before these fields existed have their defaults.
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
