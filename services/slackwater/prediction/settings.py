"""What can be set about prediction: SLACKWATER_PREDICTION_<NAME>."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.prediction.domain.policy import DEFAULT_MODEL, Cadence, ModelChoice, Policies, PoolPolicy
from slackwater.prediction.domain.state import Keeping, MakeModel
from slackwater.prediction.usecases.state import PredictionPolicy


class PredictionSettings(BaseSettings):
    """Defaults follow the field; durations in seconds. What concerns models and cadence counts where no PredictPolicy
    says otherwise."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_PREDICTION_", frozen=True, protected_namespaces=())

    cpu_model: str = Field(DEFAULT_MODEL, description="a name of the registry; see docs/how-to/choose-a-model.md")
    memory_model: str = Field(DEFAULT_MODEL, description="the same for memory")
    cpu_settings: dict[str, Any] = Field(default_factory=dict, description="JSON: what is set about the CPU model")
    memory_settings: dict[str, Any] = Field(default_factory=dict, description="JSON: the same for memory")
    histogram_update_seconds: float = Field(30.0, gt=0, description="windows shorter than this are put together")
    reporting_seconds: float = Field(60.0, gt=0, description="a node with news is published this often")
    check_seconds: float = Field(20.0, gt=0, description="between looks for values that moved")
    resource_diff_threshold: float = Field(0.05, ge=0, le=1, description="what is published at once, a ratio")
    force_update_seconds: float = Field(600.0, gt=0, description="the oldest that a last prediction may get")
    protect_lsr: bool = Field(False, description="CPU of LSR pods is never reclaimable, like that of LSE")
    pod_retention_seconds: float = Field(1800.0, gt=0, description="a pod unseen for longer is forgotten")
    node_retention_seconds: float = Field(7 * 86400.0, gt=0, description="the same for nodes and systems")
    workload_retention_seconds: float = Field(15 * 86400.0, gt=0, description="the same for workloads")
    snapshot_seconds: float = Field(30.0, gt=0, description="between snapshots, if they are quick (one in twenty)")
    keep_snapshots: int = Field(2, ge=1)

    def policies(self) -> Policies:
        """What is in force while nothing else is handed over."""
        cadence = Cadence(
            histogram_update_seconds=self.histogram_update_seconds,
            reporting_seconds=self.reporting_seconds,
            check_seconds=self.check_seconds,
            resource_diff_threshold=self.resource_diff_threshold,
            force_update_seconds=self.force_update_seconds,
        )
        cpu = ModelChoice(self.cpu_model, self.cpu_settings)
        memory = ModelChoice(self.memory_model, self.memory_settings)
        return Policies(PoolPolicy(cpu=cpu, memory=memory, cadence=cadence, protect_lsr=self.protect_lsr))

    def policy(self, make: MakeModel) -> PredictionPolicy:
        """As the use cases take it."""
        keeping = Keeping(self.pod_retention_seconds, self.node_retention_seconds, self.workload_retention_seconds)
        return PredictionPolicy(make, self.policies(), keeping, self.keep_snapshots)
