"""The models of an assessment, by their labels."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.backtest.adapters.predictors import contenders
from slackwater.peaks.port import PeakModel
from slackwater.simulation.settings import AssessmentOptions
from slackwater.simulation.usecases.assess import Model
from slackwater.traces.options import TraceResource


def models_of(tried: AssessmentOptions) -> list[Model]:
    """Raises InvalidInput for a name or a setting that is not known."""
    labels = list(dict.fromkeys(tried.models))
    for label in labels:
        contenders(label, TraceResource.CPU, option="model")  # before anything long begins
    return [Model(label, _Maker(label)) for label in labels]


@dataclass(frozen=True, slots=True)
class _Maker:
    label: str

    def __call__(self, resource: TraceResource) -> PeakModel:
        return contenders(self.label, resource, option="model")[0].make()
