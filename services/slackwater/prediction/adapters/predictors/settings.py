"""What can be set about each model: one frozen pydantic model per predictor, as policy, help and schema show it.

Amounts of time are seconds or what the name says, shares and rates are ratios (0..1). A field that is None depends on
the resource, as its description says.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Resource = Literal["cpu", "memory"]


class PredictorSettings(BaseModel):
    """Base of all: frozen, and an unknown field is refused, and so is a number that is none or has no end."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BorgDefaultSettings(PredictorSettings):
    """sum of limits / overcommit."""

    overcommit: float = Field(
        1.1, ge=1, le=10, description="limits per predicted peak, a ratio: 1.1 lends 9 % of all limits"
    )


class NSigmaSettings(PredictorSettings):
    """mean + N standard deviations of the last hours."""

    sigmas: float = Field(5.0, ge=0, le=1000, description="standard deviations on top of the mean")
    window_seconds: float = Field(36_000.0, ge=60, description="history that is looked at; 10 h, as published")
    blocks: int = Field(20, ge=1, le=1000, description="parts of the window; it moves on by one part at a time")
    warm_seconds: float = Field(7_200.0, ge=0, description="samples that make a pod known; before, its limit counts")


class ResourceCentralSettings(PredictorSettings):
    """sum over pods of a percentile of each one's last hours."""

    percentile: float = Field(0.99, gt=0, le=1, description="of a pod's usage / limit, a ratio")
    window_seconds: float = Field(36_000.0, ge=60, description="history that is looked at; 10 h, as published")
    slots: int = Field(120, ge=1, le=10_000, description="parts of the window; the largest sample of each counts")
    warm_seconds: float = Field(7_200.0, ge=0, description="samples that make a pod known; before, its limit counts")


class HistogramSettings(PredictorSettings):
    """Decaying histograms: percentile x margin, of pods and of all of them together."""

    percentile: float | None = Field(None, gt=0, le=1, description="a ratio; None: 0.95 of CPU, 0.98 of memory")
    margin: float = Field(0.10, ge=0, le=10, description="on top of each percentile; 0.1 is 10 %")
    half_life_seconds: float | None = Field(
        None, ge=60, description="after which a sample counts half; None: 12 h of CPU, 24 h of memory"
    )
    by_usage: bool = Field(False, description="samples weigh what they are: a share of the usage, not of the time")
    warm_seconds: float = Field(3_600.0, ge=0, description="samples that make a pod known; before, its limit counts")


class PeriodicSettings(PredictorSettings):
    """The next day hour by hour, where a period of a day or a week is proven; the largest hour elsewhere."""

    margin: float = Field(0.10, ge=0, le=10, description="on top of each hour; 0.1 is 10 %")
    history_hours: int = Field(
        336, ge=48, le=1344, description="hours that are remembered; two days or two weeks prove a period"
    )
    cold_hours: int = Field(24, ge=1, description="hours seen that make a workload known; before, its limit counts")
    correlation: float = Field(
        0.5, ge=0, le=1, description="least autocorrelation at a period that is believed; 1 is a perfect repetition"
    )
    estimator: Literal["max", "fft", "best"] = Field(
        "max", description="of a period: the largest of each hour, the last one smoothed, or what predicted it better"
    )


class MaxSettings(PredictorSettings):
    """The largest of several models, machine by machine."""

    models: tuple[tuple[str, dict[str, Any]], ...] = Field(
        (("nsigma-v1", {}), ("resource-central", {})),
        min_length=1,
        max_length=8,
        description="name and settings of each; none of them a max of its own",
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
    """What a backtest of all models judges beside the defaults: the balanced knob, which lends more of the CPU."""
    knob: float | None = Field(
        None,
        ge=0,
        le=100,
        description="k, insured part of the risk: 0.20 balanced, 0.30 safe; None: 0.30 CPU, 0.15 memory",
    )
    violation_rate: float | None = Field(
        None, gt=0, lt=1, description="accepted share of 24 h windows above the peak; the knob then follows from it"
    )
    history_hours: int = Field(336, ge=24, le=400, description="hours that are remembered; 2 bytes each and workload")
    live_days: int = Field(
        14, ge=1, le=31, description="days of a pod's own peaks, for the live gap; within history_hours"
    )
    cold_hours: int = Field(24, ge=1, description="hours seen that make a workload known; before, its limit counts")
    cold_start: Literal["request", "class-prior"] = Field(
        "request", description="what stands in for an unknown workload: its limit, or what its class needs of it"
    )
    prior_quantile: float = Field(
        0.95, ge=0.5, le=1, description="of the shares of their limits that known workloads of a class need"
    )
    prior_workloads: int = Field(50, ge=1, description="of a class that must be known; before, the limit stands in")
    young_hours: int = Field(168, ge=0, description="hours seen below which a workload raises the knob")
    young_knob: float = Field(0.30, ge=0, le=100, description="the knob where all is young")
    young_extra: float = Field(0.15, ge=0, le=100, description="on top of that, where the knob follows from a rate")
    rollout_hours: float = Field(
        24.0, ge=0, le=720, description="for how long a rollout that was noticed raises the knob; 0: not at all"
    )
    rollout_knob: float = Field(
        1.0, ge=0, le=100, description="the knob where all was deployed, scaled or configured anew; 1: the whole risk"
    )
    novelty: float = Field(0.05, ge=0, le=1, description="share of the unused limits that belongs to the risk")
    noise: float = Field(0.10, ge=0, le=1, description="share of the level that belongs to the risk")
    size_reference: float = Field(20.0, gt=0, description="members at which the risk is not scaled by size")
    size_power: float = Field(0.5, ge=0, le=1, description="how the risk falls with size; 0: not at all")
    size_most: float = Field(4.5, ge=1, description="most that size multiplies or divides the risk by")
    ledger_after_hours: int = Field(
        168,
        ge=1,
        description="hours seen from which a workload counts fully in the ledger; with half of them an eighth",
    )
    ledger_prior_days: float = Field(200.0, ge=0, description="machine-days that the reference tail counts as")
    ledger_safety: float = Field(0.6, gt=0, le=1, description="share of the stated rate that is aimed at")
    ledger_half_life_days: float = Field(28.0, gt=0, description="after which what came of a prediction counts half")
