"""The models of an assessment, by their labels."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.backtest.adapters.predictors import contenders
from slackwater.prediction.domain.models.port import PeakModel
from slackwater.simulation.settings import Tried
from slackwater.simulation.usecases.assess import Model
from slackwater.traces.choices import Resource


def models_of(tried: Tried) -> list[Model]:
    """Raises InvalidInput for a name or a setting that is not known."""
    labels = list(dict.fromkeys(tried.models))
    for label in labels:
        contenders(label, Resource.CPU, option="model")  # before anything long begins
    return [Model(label, _Maker(label)) for label in labels]


@dataclass(frozen=True, slots=True)
class _Maker:
    label: str

    def __call__(self, resource: Resource) -> PeakModel:
        return contenders(self.label, resource, option="model")[0].make()
