from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field
from small_models import SaysLast, SaysLimits

from slackwater.backtest.adapters.predictors import Predictor, contenders, described, installed
from slackwater.model.errors import InvalidInput
from slackwater.peaks.port import PeakModel
from slackwater.traces.options import TraceResource


class FactorSettings(BaseModel):
    """What was used last, times a factor."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    factor: float = Field(1.0, ge=0, description="on top")


class PresetSettings(FactorSettings):
    presets: ClassVar[tuple[str, ...]] = ("factor=2", "factor=3")


class NoSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def make_last(settings: FactorSettings, resource: str) -> PeakModel:
    return SaysLast(settings.factor if resource == "cpu" else -1.0)


def make_limits(settings: NoSettings, resource: str) -> PeakModel:
    return SaysLimits()


def some() -> Mapping[str, Predictor]:
    return {"last": (FactorSettings, make_last), "limits": (NoSettings, make_limits)}


def test_all_are_all_and_further_ones_may_stand_beside() -> None:
    found = contenders("all,last:factor=2.5", TraceResource.CPU, some)
    assert [one.label for one in found] == ["last", "limits", "last:factor=2.5"]
    assert found[2].settings == {"factor": 2.5}
    models = [one.make() for one in found]
    assert isinstance(models[2], SaysLast)
    assert models[2].factor == 2.5


def test_presets_of_a_model_stand_beside_it_when_all_are_judged() -> None:
    found = contenders("all", TraceResource.CPU, lambda: {"one": (PresetSettings, make_last), **some()})
    assert [one.label for one in found] == ["one", "one:factor=2", "one:factor=3", "last", "limits"]
    assert [one.settings.get("factor") for one in found] == [1.0, 2.0, 3.0, 1.0, None]


def test_each_name_is_judged_once_and_every_model_is_a_new_one() -> None:
    (one,) = contenders("last, last", TraceResource.MEMORY, some)
    assert one.make() is not one.make()
    made = one.make()
    assert isinstance(made, SaysLast)
    assert made.factor == -1.0, "made for the resource"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("", "no model is named; allowed: last, limits, or all"),
        ("lost", "there is no model 'lost'; allowed: last, limits, or all"),
        ("last:factor=much", "last:factor=much: factor: .*; allowed settings: factor"),
        ("last:factor=-1", "factor: .*greater than or equal to 0"),
        ("last:size=1", "size: .*allowed settings: factor"),
        ("limits:x=1", "allowed settings: none"),
    ],
)
def test_what_cannot_be_judged_is_an_error_that_says_what_can(wanted: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        contenders(wanted, TraceResource.CPU, some)


@pytest.mark.parametrize("resource", list(TraceResource))
def test_every_model_that_is_installed_can_be_made(resource: TraceResource) -> None:
    found = contenders("all", resource)
    assert {"workload-profile", "histogram", "max", "borg-default"} <= {one.label for one in found}
    assert {one.label.partition(":")[0] for one in found} == set(installed())
    for one in found:
        assert one.make().version == one.version


def test_models_are_listed_with_their_settings() -> None:
    assert list(described(some)) == ["last: What was used last, times a factor.", "  factor=1.0  on top", "limits"]
