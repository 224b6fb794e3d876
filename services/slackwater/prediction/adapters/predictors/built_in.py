"""The built-in models, each as (settings, factory). The entry points in pyproject.toml name them."""

from __future__ import annotations

from typing import cast

from slackwater.peaks.borg_default import BorgDefault
from slackwater.peaks.buckets import CPU_MILLI, MEMORY_BYTES
from slackwater.peaks.calibration import LedgerOptions
from slackwater.peaks.decaying_histograms import DecayingHistograms, DecayingOptions
from slackwater.peaks.largest import Largest
from slackwater.peaks.nsigma import NSigma, NSigmaV1, NSigmaV2
from slackwater.peaks.periodic import Periodic, PeriodicOptions
from slackwater.peaks.port import KeptModel
from slackwater.peaks.profiles import DAY
from slackwater.peaks.resource_central import ResourceCentral, ResourceCentralOptions
from slackwater.peaks.workload_profile import ProfileOptions, WorkloadProfile
from slackwater.prediction.adapters.predictors.registry import Predictor, make_model
from slackwater.prediction.adapters.predictors.settings import (
    BorgDefaultSettings,
    HistogramSettings,
    MaxSettings,
    NSigmaSettings,
    PeriodicSettings,
    PredictorSettings,
    Resource,
    ResourceCentralSettings,
    WorkloadProfileSettings,
)


def _borg_default(settings: PredictorSettings, resource: Resource) -> KeptModel:
    return BorgDefault(cast(BorgDefaultSettings, settings).overcommit)


def _nsigma(settings: PredictorSettings) -> NSigma:
    options = cast(NSigmaSettings, settings)
    return NSigma(options.sigmas, options.blocks, options.window_seconds / options.blocks, options.warm_seconds)


def _nsigma_v1(settings: PredictorSettings, resource: Resource) -> KeptModel:
    return NSigmaV1(_nsigma(settings))


def _nsigma_v2(settings: PredictorSettings, resource: Resource) -> KeptModel:
    return NSigmaV2(_nsigma(settings))


def _resource_central(settings: PredictorSettings, resource: Resource) -> KeptModel:
    options = cast(ResourceCentralSettings, settings)
    slot_seconds = options.window_seconds / options.slots
    return ResourceCentral(
        ResourceCentralOptions(options.percentile, options.slots, slot_seconds, options.warm_seconds)
    )


def _periodic(settings: PredictorSettings, resource: Resource) -> KeptModel:
    return Periodic(PeriodicOptions(**cast(PeriodicSettings, settings).model_dump()))


def _histogram(settings: PredictorSettings, resource: Resource) -> KeptModel:
    given, cpu = cast(HistogramSettings, settings), resource == "cpu"
    options = DecayingOptions(
        percentile=given.percentile or (0.95 if cpu else 0.98),
        margin=given.margin,
        half_life_seconds=given.half_life_seconds or (DAY / 2 if cpu else DAY),
        warm_seconds=given.warm_seconds,
        by_usage=given.by_usage,
    )
    return DecayingHistograms(options, CPU_MILLI if cpu else MEMORY_BYTES)


def _max(settings: PredictorSettings, resource: Resource) -> KeptModel:
    return Largest([make_model(name, given, resource) for name, given in cast(MaxSettings, settings).models])


def _workload_profile(settings: PredictorSettings, resource: Resource) -> KeptModel:
    options = cast(WorkloadProfileSettings, settings)
    own = options.model_dump(exclude={"knob", "ledger_prior_days", "ledger_safety", "ledger_half_life_days"})
    ledger = LedgerOptions(options.ledger_prior_days, options.ledger_safety, options.ledger_half_life_days * DAY)
    knob = options.knob if options.knob is not None else (0.30 if resource == "cpu" else 0.15)
    return WorkloadProfile(ProfileOptions(knob=knob, **own, ledger=ledger))


borg_default = Predictor(BorgDefaultSettings, _borg_default)
nsigma_v1 = Predictor(NSigmaSettings, _nsigma_v1)
nsigma_v2 = Predictor(NSigmaSettings, _nsigma_v2)
resource_central = Predictor(ResourceCentralSettings, _resource_central)
periodic = Predictor(PeriodicSettings, _periodic)
histogram = Predictor(HistogramSettings, _histogram)
largest = Predictor(MaxSettings, _max)
workload_profile = Predictor(WorkloadProfileSettings, _workload_profile)
