"""Registry of models: entry points of the group `slackwater.predictors`, built-in and of other distributions.

An entry point names a `Predictor`, or any pair of a pydantic settings class and factory(settings, resource). Built-in
models are also known when Slackwater runs from a checkout without package metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ValidationError

from slackwater.model.errors import InvalidInput, Misconfigured, SlackwaterError
from slackwater.model.plugins import entry_points
from slackwater.model.shown_values import shown
from slackwater.peaks.plugin_sandbox import SandboxedModel
from slackwater.peaks.port import KeptModel
from slackwater.prediction.adapters.predictors.settings import PredictorSettings, Resource
from slackwater.prediction.domain.policy import ModelChoice

GROUP = "slackwater.predictors"
DEFAULT = "workload-profile"
_TEXTS, _FUNCTIONS = ("name", "version"), ("fold", "peaks", "state", "restore", "forget")
"""Attributes that every model has; see KeptModel."""
_PLACE = "slackwater.prediction.adapters.predictors.built_in"
BUILT_IN: Mapping[str, str] = {
    "borg-default": f"{_PLACE}:borg_default",
    "histogram": f"{_PLACE}:histogram",
    "max": f"{_PLACE}:largest",
    "nsigma-v1": f"{_PLACE}:nsigma_v1",
    "nsigma-v2": f"{_PLACE}:nsigma_v2",
    "periodic": f"{_PLACE}:periodic",
    "resource-central": f"{_PLACE}:resource_central",
    "workload-profile": f"{_PLACE}:workload_profile",
}


class Predictor(NamedTuple):
    """A model: its settings class, and a factory that builds it for a resource."""

    settings: type[PredictorSettings]
    factory: Callable[[PredictorSettings, Resource], KeptModel]


def names() -> tuple[str, ...]:
    """Returns all model names in alphabetical order. Raises Misconfigured."""
    return tuple(sorted(_known()))


def predictor(name: str) -> Predictor:
    """Returns the named model. Raises InvalidInput if it is unknown, Misconfigured if it cannot be loaded."""
    entry_point = _known().get(name)
    if entry_point is None:
        raise InvalidInput(
            f"model: {name!r} is unknown; use one of {', '.join(names())}", code="predictor_unknown", field="model"
        )
    try:
        settings, factory = entry_point.load()
        if not (isinstance(settings, type) and issubclass(settings, BaseModel) and callable(factory)):
            raise TypeError(f"it names {settings!r} and {factory!r}, not a settings class and a function")
    except Exception as error:
        raise Misconfigured(
            f"model {name}: entry point {entry_point.value} must name a pair (settings class, factory): {error}",
            code="predictor_unusable",
        ) from error
    return Predictor(cast(type[PredictorSettings], settings), factory)


def make_model(name: str, settings: Mapping[str, Any] | PredictorSettings, resource: Resource) -> KeptModel:
    """Builds a model for one resource. Raises InvalidInput that names the setting, and the errors of `predictor`."""
    known = predictor(name)
    if isinstance(settings, PredictorSettings):
        return _made(name, known, settings, resource)
    try:
        checked = known.settings.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"model {name}: setting {where} is {shown(first['input'])}: {first['msg']}",
            code="predictor_settings",
            field=where,
        ) from error
    return _made(name, known, checked, resource)


def _made(name: str, known: Predictor, settings: PredictorSettings, resource: Resource) -> KeptModel:
    """Builds the model. Models of other distributions run in a sandbox (see `contained`)."""
    if name in BUILT_IN:
        return known.factory(settings, resource)

    def make() -> KeptModel:
        model = known.factory(settings, resource)
        lacks = [part for part in _TEXTS if not isinstance(getattr(model, part, None), str)]
        lacks += [part for part in _FUNCTIONS if not callable(getattr(model, part, None))]
        if lacks:
            raise TypeError(f"the factory returned {type(model).__name__}, which lacks {', '.join(lacks)}")
        return model

    try:
        return SandboxedModel(make)
    except SlackwaterError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"model {name}: could not be made for {resource} with these settings: {type(error).__name__}: {error}",
            code="predictor_settings",
        ) from error


def origin(name: str) -> str:
    """Returns the distribution that installs a model, with its version; `slackwater` for built-in models."""
    entry_point = _known().get(name)
    distribution = None if entry_point is None else entry_point.dist
    return "slackwater" if distribution is None or name in BUILT_IN else f"{distribution.name} {distribution.version}"


def _known() -> Mapping[str, EntryPoint]:
    known = {name: EntryPoint(name, place, GROUP) for name, place in BUILT_IN.items()}
    for entry in entry_points(GROUP):
        if known.setdefault(entry.name, entry).value != entry.value:
            raise Misconfigured(
                f"two distributions install a model {entry.name}: {known[entry.name].value} and {entry.value}; "
                "uninstall one of them",
                code="predictor_twice",
            )
    return known


def model_of(choice: ModelChoice, resource: str) -> KeptModel:
    """Builds the model that a policy chooses. Raises InvalidInput that names the invalid setting."""
    return make_model(choice.name, choice.settings, "cpu" if resource == "cpu" else "memory")
