"""The models that are installed: entry points of the group `slackwater.predictors`, by name and settings.

What an entry point names is `(settings class, factory)`: a frozen pydantic model, and what makes a model of peaks from
one of its values and the resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel, ValidationError

from slackwater.backtest.domain.choices import Resource
from slackwater.backtest.ports import Contender
from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.models.port import PeakModel

GROUP = "slackwater.predictors"
ALL = "all"

Predictor = tuple[type[BaseModel], Callable[[Any, str], PeakModel]]


def installed() -> Mapping[str, Predictor]:
    """Every model by its name."""
    return {point.name: point.load() for point in entry_points(group=GROUP)}


def contenders(
    wanted: str, resource: Resource, predictors: Callable[[], Mapping[str, Predictor]] = installed
) -> Sequence[Contender]:
    """`wanted` is `all`, or names with commas between; `name:setting=value:…` gives settings. Raises InvalidInput."""
    known = predictors()
    labels = list(dict.fromkeys(label.strip() for label in wanted.split(",") if label.strip()))
    if ALL in labels:
        at = labels.index(ALL)
        labels = list(dict.fromkeys([*labels[:at], *known, *labels[at + 1 :]]))
    if not labels:
        raise InvalidInput(f"--models: none named; there are {', '.join(known)}, or all", field="models")
    return [_contender(label, known, resource) for label in labels]


def _contender(label: str, known: Mapping[str, Predictor], resource: Resource) -> Contender:
    name, *given = label.split(":")
    if name not in known:
        there = ", ".join(known) or "none"
        raise InvalidInput(f"--models: there is no model {name!r}; there are {there}, or all", field="models")
    form, factory = known[name]
    pairs = dict(part.partition("=")[::2] for part in given)
    try:
        settings = form.model_validate(pairs)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise InvalidInput(f"--models: {label}: {problems}; settings are {_settings(form)}", field="models") from None
    return Contender(
        label=label,
        version=factory(settings, resource.value).version,
        settings=settings.model_dump(mode="json"),
        make=lambda: factory(settings, resource.value),
    )


def _settings(form: type[BaseModel]) -> str:
    return ", ".join(form.model_fields) or "none"
