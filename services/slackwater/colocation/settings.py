"""Settings of colocation: SLACKWATER_COLOCATION_<NAME>."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.offers.document import Spec, strategy_of
from slackwater.offers.strategy import Strategy


class ColocationSettings(BaseSettings):
    """Defaults follow the field (60 % CPU, 65 % memory, threshold 0.1, nothing from usage older than 15 minutes)."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_COLOCATION_", frozen=True)

    enable: bool = Field(True, description="whether anything is offered anywhere")
    cpu_reclaim_threshold_percent: int = Field(60, ge=0, description="share of CPU that may be in use; may exceed 100")
    memory_reclaim_threshold_percent: int = Field(65, ge=0, description="the same for memory")
    reserved_cpu_milli: int = Field(0, ge=0, description="kept back on every node beside its own reservation")
    reserved_memory_bytes: int = Field(0, ge=0)
    cold_start_holds_request: bool = Field(True, description="nothing is lent of what a pod without warm model asked")
    resource_diff_threshold: float = Field(0.1, gt=0, le=1, description="ratio beyond which a change is published")
    rise_windows: int = Field(2, ge=1, description="how many windows a rise must last")
    update_time_threshold_seconds: float = Field(
        300.0, ge=1, description="age at which a smaller change is published too"
    )
    decay_from_seconds: float = Field(180.0, ge=0, description="age of usage at which the offer begins to shrink")
    decay_to_seconds: float = Field(900.0, gt=0, description="age of usage at which nothing is offered")
    prediction_max_age_seconds: float = Field(900.0, gt=0, description="an older prediction is no prediction")
    age_check_seconds: float = Field(10.0, gt=0, description="how often ages are looked at")
    full_pass_seconds: float = Field(60.0, gt=0, description="over how long a look at every offer is spread")

    @model_validator(mode="after")
    def _ages_in_order(self) -> Self:
        if self.decay_from_seconds >= self.decay_to_seconds:
            raise ValueError(
                f"decay_from_seconds is {self.decay_from_seconds}, it must be below decay_to_seconds"
                f" ({self.decay_to_seconds}): lower it or raise decay_to_seconds"
            )
        return self

    def base(self) -> Spec:
        """Returns the fields of a ColocationStrategy that the cluster's document is based on."""
        return {
            "enable": self.enable,
            "cpuReclaimThresholdPercent": self.cpu_reclaim_threshold_percent,
            "memoryReclaimThresholdPercent": self.memory_reclaim_threshold_percent,
            "reservedCPUMilli": self.reserved_cpu_milli,
            "reservedMemoryBytes": self.reserved_memory_bytes,
            "coldStartHoldsRequest": self.cold_start_holds_request,
            "resourceDiffThreshold": self.resource_diff_threshold,
            "riseWindows": self.rise_windows,
            "updateTimeThresholdSeconds": _whole(self.update_time_threshold_seconds),
            "degradeFromSeconds": _whole(self.decay_from_seconds),
            "degradeTimeMinutes": _whole(self.decay_to_seconds / 60),
            "predictionMaxAgeSeconds": _whole(self.prediction_max_age_seconds),
        }

    def strategy(self) -> Strategy:
        """Returns the strategy of every node while no document is stored."""
        return strategy_of({}, self.base())


def _whole(value: float) -> float:
    """Returns whole numbers as integers (15.0 as 15), as documents have them."""
    return int(value) if value == int(value) else value
