"""Resolves the models to compare, by name and settings, from those of prediction and of installed plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from slackwater.backtest.adapters.external_models import ExternalModel
from slackwater.backtest.ports import Contender
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.peaks.port import PeakModel
from slackwater.prediction.adapters.predictors import registry
from slackwater.traces.options import TraceResource

ALL = "all"
Predictor = tuple[type[BaseModel], Callable[[Any, Any], PeakModel]]
"""The form of the settings, and the factory that builds a model from settings for a resource."""


class _Installed(Mapping[str, Predictor]):
    """Loads a model on first access, so that a broken plugin fails only the commands that use it."""

    def __init__(self) -> None:
        self._names = registry.names()

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Predictor:
        """Raises Misconfigured."""
        form, factory = registry.predictor(name)
        if name in registry.BUILT_IN:
            return form, factory
        origin = f"model {name} of {registry.origin(name)}"
        return form, lambda settings, resource: ExternalModel(origin, lambda: factory(settings, resource))


def installed() -> Mapping[str, Predictor]:
    """Returns every installed model by name. Raises Misconfigured."""
    return _Installed()


def contenders(
    names: str,
    resource: TraceResource,
    predictors: Callable[[], Mapping[str, Predictor]] = installed,
    *,
    option: str = "models",
) -> Sequence[Contender]:
    """Returns the models to compare.

    `names` is `all` or a comma-separated list; `name:setting=value:…` sets settings. `all` stands for every model with
    its defaults and with each of the `presets` of its form. Raises InvalidInput that names the command line option.
    """
    known = predictors()
    listed = [label.strip() for label in names.split(",") if label.strip()]
    labels = dict.fromkeys(name for label in listed for name in (_all(known) if label == ALL else [label]))
    if not labels:
        raise InvalidInput(f"--{option}: no model is named; allowed: {', '.join(known)}, or all", field=option)
    return [_contender(label, known, resource, option) for label in labels]


def described(predictors: Callable[[], Mapping[str, Predictor]] = installed) -> Iterator[str]:
    """Yields help lines: each model with its settings, their defaults and meaning; for a broken model, its error."""
    known = predictors()
    for name in known:
        try:
            form, _ = known[name]
        except Misconfigured as error:
            yield error.message
            continue
        yield f"{name}: {(form.__doc__ or '').strip().partition(chr(10))[0]}".rstrip(": ")
        for setting, field in form.model_fields.items():
            yield f"  {setting}={field.default}  {field.description or ''}".rstrip()


def _all(known: Mapping[str, Predictor]) -> Iterator[str]:
    for name, (form, _) in known.items():
        yield name
        yield from (f"{name}:{preset}" for preset in getattr(form, "presets", ()))


def _contender(label: str, known: Mapping[str, Predictor], resource: TraceResource, option: str) -> Contender:
    name, *given = label.split(":")
    if name not in known:
        there = ", ".join(known) or "none"
        raise InvalidInput(f"--{option}: there is no model {name!r}; allowed: {there}, or all", field=option)
    form, factory = known[name]
    try:
        settings = form.model_validate(dict(part.partition("=")[::2] for part in given))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors())
        allowed = ", ".join(form.model_fields) or "none"
        raise InvalidInput(f"--{option}: {label}: {problems}; allowed settings: {allowed}", field=option) from None
    return Contender(
        label=label,
        version=factory(settings, resource.value).version,
        settings=settings.model_dump(mode="json", exclude_none=True),
        make=lambda: factory(settings, resource.value),
    )
