"""Routes /v1/predictors: the installed models of peaks and their settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.prediction.adapters.predictors.catalogue import Catalogue, PredictorDescription, settings_of
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
"""Built-in models by class, so that the API description has each schema; other models as plain JSON."""


class SettingView(BaseModel):
    """One setting of a model in readable form; `default` is JSON."""

    name: str
    default: str
    allowed: str
    text: str


class PredictorView(BaseModel):
    """A model of peaks that a PredictPolicy may name, with its settings."""

    name: str
    version: str
    text: str
    origin: str = Field(description="The distribution that installs it.")
    takes_rate: bool = Field(description="Whether a PredictPolicy can state a violationRate for it.")
    defaults: Defaults
    settings: list[SettingView]
    settings_schema: dict[str, Any] = Field(description="JSON Schema of its settings.")


class Predictors(BaseModel):
    """Every installed model, by name."""

    items: list[PredictorView]


def predictor_router(catalogue: Catalogue) -> Routes:
    """Builds the routes. The installed models do not change while the process runs."""
    router = Routes(prefix="/v1/predictors", tags=["prediction"])

    @router.get("", role=Role.VIEWER, summary="Every model of peaks that can be chosen")
    async def list_predictors() -> Predictors:
        return Predictors(items=[_view(described) for described in catalogue.all()])

    @router.get("/{name}", role=Role.VIEWER, summary="One model of peaks with its settings")
    async def get_predictor(name: str) -> PredictorView:
        try:
            return _view(catalogue.one(name))
        except InvalidInput as error:
            raise NotFound(error.message, code="predictor_not_found") from None

    return router


def _view(described: PredictorDescription) -> PredictorView:
    return PredictorView(
        name=described.name,
        version=described.version,
        text=described.text,
        origin=described.origin,
        takes_rate=described.takes_rate,
        defaults=described.defaults if described.origin == "slackwater" else described.defaults.model_dump(mode="json"),
        settings=[
            SettingView(name=s.name, default=s.default, allowed=s.allowed, text=s.text) for s in settings_of(described)
        ],
        settings_schema=described.schema,
    )
