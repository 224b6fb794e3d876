"""Which models there are: entry points of the group `slackwater.predictors`, ours and those of other distributions.

An entry point names a `Predictor`, or any pair of a pydantic settings class and factory(settings, resource).
Ours are known even where Slackwater runs from a checkout and no metadata says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from pydantic import ValidationError

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.prediction.adapters.predictors.settings import PredictorSettings, Resource
from slackwater.prediction.domain.models.port import KeptModel

GROUP = "slackwater.predictors"
DEFAULT = "workload-profile"
_PLACE = "slackwater.prediction.adapters.predictors.built_in"
BUILT_IN: Mapping[str, str] = {
    "borg-default": f"{_PLACE}:borg_default",
    "histogram": f"{_PLACE}:histogram",
    "max": f"{_PLACE}:largest",
    "nsigma-v1": f"{_PLACE}:nsigma_v1",
    "nsigma-v2": f"{_PLACE}:nsigma_v2",
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
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise Misconfigured(
            f"model {name}: entry point {found.value} must name a pair (settings class, factory): {error}",
            code="predictor_unusable",
        ) from error
    return Predictor(settings, factory)


def make_model(name: str, settings: Mapping[str, Any] | PredictorSettings, resource: Resource) -> KeptModel:
    """A model for one resource. Raises InvalidInput that names the setting, and what `predictor` raises."""
    known = predictor(name)
    if isinstance(settings, PredictorSettings):
        return known.factory(settings, resource)
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
    return known.factory(checked, resource)


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
