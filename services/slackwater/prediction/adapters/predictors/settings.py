"""Settings of the models: one frozen pydantic model per predictor, used by policies, help and schemas.

Durations are seconds unless the name states a unit; shares and rates are ratios (0..1). A field that is None depends on
the resource, as its description says.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Resource = Literal["cpu", "memory"]


class PredictorSettings(BaseModel):
    """Base of all settings: frozen; unknown fields, NaN and infinite numbers are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BorgDefaultSettings(PredictorSettings):
    """sum of limits / overcommit."""

    overcommit: float = Field(1.1, ge=1, le=10, description="limits per predicted peak; 1.1 lends 9 % of all limits")


class NSigmaSettings(PredictorSettings):
    """mean + N standard deviations of the last hours."""

    sigmas: float = Field(5.0, ge=0, le=1000, description="standard deviations on top of the mean")
    window_seconds: float = Field(36_000.0, ge=60, description="10 h, as published")
    blocks: int = Field(20, ge=1, le=1000, description="parts of the window, which moves by one part")
    warm_seconds: float = Field(7_200.0, ge=0, description="of samples until a pod is known; its limit counts before")


class ResourceCentralSettings(PredictorSettings):
    """sum over pods of a percentile of each pod's last hours."""

    percentile: float = Field(0.99, gt=0, le=1, description="of a pod's usage / limit, a ratio")
    window_seconds: float = Field(36_000.0, ge=60, description="10 h, as published")
    slots: int = Field(120, ge=1, le=10_000, description="parts of the window; the largest sample of each counts")
    warm_seconds: float = Field(7_200.0, ge=0, description="of samples until a pod is known; its limit counts before")


class HistogramSettings(PredictorSettings):
    """Decaying histograms: percentile x margin, of each pod and of all pods combined."""

    percentile: float | None = Field(None, gt=0, le=1, description="None: 0.95 of CPU, 0.98 of memory")
    margin: float = Field(0.10, ge=0, le=10, description="on top of each percentile")
    half_life_seconds: float | None = Field(None, ge=60, description="None: 12 h of CPU, 24 h of memory")
    by_usage: bool = Field(False, description="weigh samples by value: a share of usage, not of time")
    warm_seconds: float = Field(3_600.0, ge=0, description="of samples until a pod is known; its limit counts before")


class PeriodicSettings(PredictorSettings):
    """The next day hour by hour, where a period of a day or a week is proven; elsewhere the largest hour."""

    margin: float = Field(0.10, ge=0, le=10, description="on top of each hour")
    history_hours: int = Field(336, ge=48, le=1344, description="kept; two days or two weeks prove a period")
    cold_hours: int = Field(24, ge=1, description="until a workload is known; its limit counts before")
    correlation: float = Field(0.5, ge=0, le=1, description="minimum autocorrelation of a period")
    estimator: Literal["max", "fft", "best"] = Field(
        "max", description="estimate of a period: each hour's largest, the last one smoothed, or the better predictor"
    )


class MaxSettings(PredictorSettings):
    """The largest of several models for each machine."""

    models: tuple[tuple[str, dict[str, Any]], ...] = Field(
        (("nsigma-v1", {}), ("resource-central", {})),
        min_length=1,
        max_length=8,
        description="name and settings of each; no `max` among them",
    )

    @field_validator("models")
    @classmethod
    def _flat(cls, models: tuple[tuple[str, dict[str, Any]], ...]) -> tuple[tuple[str, dict[str, Any]], ...]:
        if any(name == "max" for name, _ in models):
            raise ValueError("a max within a max is the max of all of them: name them beside each other")
        return models


class WorkloadProfileSettings(PredictorSettings):
    """B + k R over two weeks of hourly maxima of the workloads that are on the machine now."""

    presets: ClassVar[tuple[str, ...]] = ("knob=0.20",)
    """Variants that a backtest of all models includes: the balanced knob, which lends more CPU."""
    knob: float | None = Field(
        None,
        ge=0,
        le=100,
        description="k, insured part of the risk: 0.20 balanced, 0.30 safe; None: 0.30 CPU, 0.15 memory",
    )
    violation_rate: float | None = Field(
        None, gt=0, lt=1, description="accepted share of 24 h windows above the peak; sets the knob"
    )
    history_hours: int = Field(336, ge=24, le=400, description="kept; 2 bytes per workload each")
    live_days: int = Field(
        14, ge=1, le=31, description="days of a pod's own peaks, for the live gap; within history_hours"
    )
    cold_hours: int = Field(24, ge=1, description="until a workload is known; its limit counts before")
    cold_start: Literal["request", "class-prior"] = Field(
        "request", description="substitute for an unknown workload: its limit, or its class's share of it"
    )
    prior_quantile: float = Field(
        0.95, ge=0.5, le=1, description="quantile of the shares of limits that a class's known workloads need"
    )
    prior_workloads: int = Field(50, ge=1, description="known workloads that a class needs")
    young_hours: int = Field(168, ge=0, description="hours seen below which a workload raises the knob")
    young_knob: float = Field(0.30, ge=0, le=100, description="the knob where all is young")
    young_extra: float = Field(0.15, ge=0, le=100, description="added to that, where a rate sets the knob")
    rollout_hours: float = Field(
        24.0, ge=0, le=720, description="for which a detected rollout raises the knob; 0: none"
    )
    rollout_knob: float = Field(
        1.0,
        ge=0,
        le=100,
        description="the knob where everything was just deployed, scaled or reconfigured; 1: the whole risk",
    )
    novelty: float = Field(0.05, ge=0, le=1, description="share of unused limits in the risk")
    noise: float = Field(0.10, ge=0, le=1, description="share of the level in the risk")
    size_reference: float = Field(20.0, gt=0, description="members at which size does not scale the risk")
    size_power: float = Field(0.5, ge=0, le=1, description="exponent of size on the risk; 0: none")
    size_most: float = Field(4.5, ge=1, description="maximum factor of size on the risk")
    ledger_after_hours: int = Field(
        168,
        ge=1,
        description="hours seen until a workload counts fully in the ledger; half of them count an eighth",
    )
    ledger_prior_days: float = Field(200.0, ge=0, description="weight of the reference tail, in machine-days")
    ledger_safety: float = Field(0.6, gt=0, le=1, description="targeted share of the stated rate")
    ledger_half_life_days: float = Field(28.0, gt=0, description="half-life of prediction outcomes")
