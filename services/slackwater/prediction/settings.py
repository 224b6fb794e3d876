"""Settings of prediction: SLACKWATER_PREDICTION_<NAME>."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.prediction.domain.policy import DEFAULT_MODEL, Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.state import Keeping, MakeModel
from slackwater.prediction.usecases.partition_store import PredictionPolicy


class PredictionSettings(BaseSettings):
    """Defaults follow the field; durations in seconds."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_PREDICTION_", frozen=True)

    protect_lsr: bool = Field(False, description="CPU of LSR pods is never reclaimable, like that of LSE")
    pod_retention_seconds: float = Field(1800.0, gt=0, description="a pod unseen for longer is forgotten")
    node_retention_seconds: float = Field(7 * 86400.0, gt=0, description="the same for nodes and systems")
    workload_retention_seconds: float = Field(15 * 86400.0, gt=0, description="the same for workloads")
    snapshot_seconds: float = Field(30.0, gt=0, description="between snapshots; more if they take over a twentieth")
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
        """Returns the cluster's policy as long as no PredictPolicy document exists for it."""
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

    def policy(self, make: MakeModel) -> PredictionPolicy:
        """Returns the policy in the form that the use cases take."""
        keeping = Keeping(self.pod_retention_seconds, self.node_retention_seconds, self.workload_retention_seconds)
        return PredictionPolicy(make, PoolPolicies(self.first_policy()), keeping, self.keep_snapshots)
