"""What can be set about prediction: SLACKWATER_PREDICTION_<NAME>."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.prediction.domain.peaks import PeakSettings
from slackwater.prediction.domain.policy import DEFAULT_MODEL, Cadence, ModelChoice, PoolPolicy
from slackwater.prediction.domain.series import ModelSettings
from slackwater.prediction.usecases.state import PredictionPolicy


class PredictionSettings(BaseSettings):
    """Defaults follow the field; durations in seconds, percentiles as ratios."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_PREDICTION_", frozen=True)

    cpu_half_life_seconds: float = Field(12 * 3600.0, gt=0, description="after which a CPU sample counts half")
    memory_half_life_seconds: float = Field(24 * 3600.0, gt=0, description="after which a memory sample counts half")
    cpu_percentile: float = Field(0.95, gt=0, le=1)
    memory_percentile: float = Field(0.98, gt=0, le=1)
    safety_margin_percent: int = Field(10, ge=0, le=1000, description="on top of each percentile")
    min_windows: int = Field(60, ge=0, description="a model that has seen fewer is cold: the request stands in")
    protect_lsr: bool = Field(False, description="CPU of LSR pods is never reclaimable, like that of LSE")
    pod_retention_seconds: float = Field(1800.0, gt=0, description="a pod unseen for longer is forgotten")
    node_retention_seconds: float = Field(7 * 86400.0, gt=0, description="the same for node, tiers and system")
    snapshot_seconds: float = Field(30.0, gt=0)
    keep_snapshots: int = Field(2, ge=1)

    cpu_model: str = Field(DEFAULT_MODEL, description="model of CPU peaks; `slackwater get predictors` lists them")
    cpu_settings: dict[str, Any] = Field({}, description='its settings as JSON, e.g. {"violation_rate": 0.01}')
    memory_model: str = Field(DEFAULT_MODEL, description="model of memory peaks")
    memory_settings: dict[str, Any] = Field({}, description="its settings as JSON")
    histogram_update_seconds: float = Field(30.0, gt=0, le=86_400, description="windows are folded this often")
    reporting_seconds: float = Field(60.0, gt=0, le=86_400, description="every prediction is published this often")
    check_seconds: float = Field(
        20.0, gt=0, le=86_400, description="between reports, changes are looked for this often"
    )
    resource_diff_threshold: float = Field(0.05, ge=0, le=1, description="a relative change that is published at once")
    force_update_seconds: float = Field(600.0, gt=0, le=86_400, description="no published prediction is older")

    def first_policy(self) -> PoolPolicy:
        """What the cluster's document says when there is none yet; from then on, PredictPolicy documents count."""
        return PoolPolicy(
            cpu=ModelChoice(self.cpu_model, self.cpu_settings),
            memory=ModelChoice(self.memory_model, self.memory_settings),
            cadence=Cadence(
                histogram_update_seconds=self.histogram_update_seconds,
                reporting_seconds=self.reporting_seconds,
                check_seconds=self.check_seconds,
                resource_diff_threshold=self.resource_diff_threshold,
                force_update_seconds=self.force_update_seconds,
            ),
            protect_lsr=self.protect_lsr,
        )

    def policy(self) -> PredictionPolicy:
        """As the use cases take it."""
        model = ModelSettings(
            cpu_half_life_seconds=self.cpu_half_life_seconds,
            memory_half_life_seconds=self.memory_half_life_seconds,
            pod_retention_seconds=self.pod_retention_seconds,
            node_retention_seconds=self.node_retention_seconds,
        )
        peaks = PeakSettings(self.safety_margin_percent, self.min_windows, self.protect_lsr)
        return PredictionPolicy(model, peaks, self.cpu_percentile, self.memory_percentile, self.keep_snapshots)
