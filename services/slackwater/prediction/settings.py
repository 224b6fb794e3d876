"""What can be set about prediction: SLACKWATER_PREDICTION_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.prediction.domain.peaks import PeakSettings
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
