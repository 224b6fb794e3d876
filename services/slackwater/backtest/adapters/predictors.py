"""Which models are judged: by name and settings, from what prediction and other distributions bring."""

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
"""What can be set, and what makes a model of it for a resource."""


class _Installed(Mapping[str, Predictor]):
    """One is loaded when it is asked for: what others brought may be broken, and concerns only who wants it."""

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
        who = f"model {name} of {registry.origin(name)}"
        return form, lambda settings, resource: ExternalModel(who, lambda: factory(settings, resource))


def installed() -> Mapping[str, Predictor]:
    """Every model by its name. Raises Misconfigured."""
    return _Installed()


def contenders(
    wanted: str,
    resource: TraceResource,
    predictors: Callable[[], Mapping[str, Predictor]] = installed,
    *,
    option: str = "models",
) -> Sequence[Contender]:
    """`wanted` is `all`, or names with commas between; `name:setting=value:…` gives settings. Raises InvalidInput that
    names the option by which it was wanted.

    All are every model as it is, and beside it those settings of its that its form names as `presets`.
    """
    known = predictors()
    asked = [label.strip() for label in wanted.split(",") if label.strip()]
    labels = dict.fromkeys(name for label in asked for name in (_all(known) if label == ALL else [label]))
    if not labels:
        raise InvalidInput(f"--{option}: none named; there are {', '.join(known)}, or all", field=option)
    return [_contender(label, known, resource, option) for label in labels]


def described(predictors: Callable[[], Mapping[str, Predictor]] = installed) -> Iterator[str]:
    """Lines for people: every model, and of each setting its default and what it means; of a broken one why it is."""
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
        raise InvalidInput(f"--{option}: there is no model {name!r}; there are {there}, or all", field=option)
    form, factory = known[name]
    try:
        settings = form.model_validate(dict(part.partition("=")[::2] for part in given))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        can_be = ", ".join(form.model_fields) or "none"
        raise InvalidInput(f"--{option}: {label}: {problems}; settings are {can_be}", field=option) from None
    return Contender(
        label=label,
        version=factory(settings, resource.value).version,
        settings=settings.model_dump(mode="json", exclude_none=True),
        make=lambda: factory(settings, resource.value),
    )
