"""Builds the models of an assessment from their labels."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.backtest.adapters.predictors import contenders
from slackwater.peaks.port import PeakModel
from slackwater.simulation.settings import AssessmentOptions
from slackwater.simulation.usecases.assess import Model
from slackwater.traces.options import TraceResource


def models_of(tried: AssessmentOptions) -> list[Model]:
    """Raises InvalidInput for an unknown model or setting."""
    labels = list(dict.fromkeys(tried.models))
    for label in labels:
        contenders(label, TraceResource.CPU, option="model")  # fail before the history is read
    return [Model(label, _Maker(label)) for label in labels]


@dataclass(frozen=True, slots=True)
class _Maker:
    label: str

    def __call__(self, resource: TraceResource) -> PeakModel:
        return contenders(self.label, resource, option="model")[0].make()
