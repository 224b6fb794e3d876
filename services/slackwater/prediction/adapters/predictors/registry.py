"""Which models there are: entry points of the group `slackwater.predictors`, ours and those of other distributions.

An entry point names a `Predictor`, or any pair of a pydantic settings class and factory(settings, resource).
Ours are known even where Slackwater runs from a checkout and no metadata says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ValidationError

from slackwater.model.errors import InvalidInput, Misconfigured, SlackwaterError
from slackwater.prediction.adapters.predictors.settings import PredictorSettings, Resource
from slackwater.prediction.domain.models.contained import Contained
from slackwater.prediction.domain.models.port import KeptModel
from slackwater.prediction.domain.policy import ModelChoice

GROUP = "slackwater.predictors"
DEFAULT = "workload-profile"
_TEXTS, _FUNCTIONS = ("name", "version"), ("fold", "peaks", "state", "restore", "forget")
"""What every model has; see KeptModel."""
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
    """A model by name: what can be set, and how it is made for a resource."""

    settings: type[PredictorSettings]
    factory: Callable[[PredictorSettings, Resource], KeptModel]


def names() -> tuple[str, ...]:
    """Every model there is, in alphabetical order. Raises Misconfigured."""
    return tuple(sorted(_known()))


def predictor(name: str) -> Predictor:
    """Raises InvalidInput if there is no such model, Misconfigured if it cannot be loaded."""
    found = _known().get(name)
    if found is None:
        raise InvalidInput(
            f"model: {name!r} is unknown; there are {', '.join(names())}", code="predictor_unknown", field="model"
        )
    try:
        settings, factory = found.load()
        if not (isinstance(settings, type) and issubclass(settings, BaseModel) and callable(factory)):
            raise TypeError(f"it names {settings!r} and {factory!r}")
    except Exception as error:
        raise Misconfigured(
            f"model {name}: entry point {found.value} must name a pair (settings class, factory): {error}",
            code="predictor_unusable",
        ) from error
    return Predictor(cast(type[PredictorSettings], settings), factory)


def make_model(name: str, settings: Mapping[str, Any] | PredictorSettings, resource: Resource) -> KeptModel:
    """A model for one resource. Raises InvalidInput that names the setting, and what `predictor` raises."""
    known = predictor(name)
    if isinstance(settings, PredictorSettings):
        return _made(name, known, settings, resource)
    try:
        checked = known.settings.model_validate(dict(settings))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"model {name}: setting {where} is {first['input']!r}: {first['msg']}",
            code="predictor_settings",
            field=where,
        ) from error
    return _made(name, known, checked, resource)


def _made(name: str, known: Predictor, settings: PredictorSettings, resource: Resource) -> KeptModel:
    """Those of other distributions are kept within bounds."""
    if name in BUILT_IN:
        return known.factory(settings, resource)

    def make() -> KeptModel:
        model = known.factory(settings, resource)
        lacks = [part for part in _TEXTS if not isinstance(getattr(model, part, None), str)]
        lacks += [part for part in _FUNCTIONS if not callable(getattr(model, part, None))]
        if lacks:
            raise TypeError(f"the factory gave {type(model).__name__}, which lacks {', '.join(lacks)}")
        return model

    try:
        return Contained(make)
    except SlackwaterError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"model {name}: could not be made for {resource} with these settings: {type(error).__name__}: {error}",
            code="predictor_settings",
        ) from error


def origin(name: str) -> str:
    """The distribution that brings a model, with its version: `slackwater` for ours."""
    found = _known().get(name)
    brought = None if found is None else found.dist
    return "slackwater" if brought is None or name in BUILT_IN else f"{brought.name} {brought.version}"


def _known() -> Mapping[str, EntryPoint]:
    known = {name: EntryPoint(name, place, GROUP) for name, place in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        if known.setdefault(entry.name, entry).value != entry.value:
            raise Misconfigured(
                f"two distributions bring a model {entry.name}: {known[entry.name].value} and {entry.value}; "
                "uninstall one of them",
                code="predictor_twice",
            )
    return known


def model_of(choice: ModelChoice, resource: str) -> KeptModel:
    """A new model as a policy chooses it. Raises InvalidInput that names what is wrong."""
    return make_model(choice.name, choice.settings, "cpu" if resource == "cpu" else "memory")
