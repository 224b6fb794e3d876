"""/v1/predictors: which models of peaks there are, and what can be set about each."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.prediction.adapters.predictors.catalogue import Catalogue, Described, settings_of
from slackwater.prediction.adapters.predictors.settings import (
    BorgDefaultSettings,
    HistogramSettings,
    MaxSettings,
    NSigmaSettings,
    PeriodicSettings,
    ResourceCentralSettings,
    WorkloadProfileSettings,
)
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

Defaults = (
    WorkloadProfileSettings
    | HistogramSettings
    | NSigmaSettings
    | ResourceCentralSettings
    | PeriodicSettings
    | BorgDefaultSettings
    | MaxSettings
    | dict[str, Any]
)
"""Of our models by class, so that the API's description has the schema of each; of others as they come."""


class SettingView(BaseModel):
    """One setting of a model, for people; `default` is JSON."""

    name: str
    default: str
    allowed: str
    text: str


class PredictorView(BaseModel):
    """A model of peaks: what a PredictPolicy may name, and what it may set."""

    name: str
    version: str
    text: str
    origin: str = Field(description="the distribution that brings it")
    takes_rate: bool = Field(description="whether violationRate of a PredictPolicy can be stated for it")
    defaults: Defaults
    settings: list[SettingView]
    settings_schema: dict[str, Any] = Field(description="JSON Schema of its settings")


class Predictors(BaseModel):
    """Every model that there is, by name."""

    items: list[PredictorView]


def predictor_router(catalogue: Catalogue) -> Routes:
    """What is installed; it does not change while the process lives."""
    router = Routes(prefix="/v1/predictors", tags=["prediction"])

    @router.get("", role=Role.VIEWER, summary="Every model of peaks that can be chosen")
    async def list_predictors() -> Predictors:
        return Predictors(items=[_view(one) for one in catalogue.all()])

    @router.get("/{name}", role=Role.VIEWER, summary="One model of peaks with its settings")
    async def read_predictor(name: str) -> PredictorView:
        try:
            return _view(catalogue.one(name))
        except InvalidInput as error:
            raise NotFound(error.message, code="predictor_not_found") from None

    return router


def _view(found: Described) -> PredictorView:
    return PredictorView(
        name=found.name,
        version=found.version,
        text=found.text,
        origin=found.origin,
        takes_rate=found.takes_rate,
        defaults=found.defaults if found.origin == "slackwater" else found.defaults.model_dump(mode="json"),
        settings=[
            SettingView(name=s.name, default=s.default, allowed=s.allowed, text=s.text) for s in settings_of(found)
        ],
        settings_schema=found.schema,
    )
