"""Models by name: entry points, settings, and messages that say what is allowed."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.peaks.decaying_histograms import DecayingHistograms
from slackwater.peaks.workload_profile import ProfileOptions, WorkloadProfile
from slackwater.prediction.adapters.predictors import registry
from slackwater.prediction.adapters.predictors.registry import BUILT_IN, DEFAULT, GROUP, make_model, names, predictor
from slackwater.prediction.adapters.predictors.settings import NSigmaSettings

ROOT = Path(__file__).resolve().parents[3]


def test_the_project_declares_the_models_that_are_built_in() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert declared == dict(BUILT_IN)
    assert set(names()) >= set(BUILT_IN)
    assert DEFAULT in BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_every_model_is_made_from_its_own_defaults(name: str, resource: registry.Resource) -> None:
    assert make_model(name, {}, resource).name == name
    settings = predictor(name).settings
    assert all(field.description for field in settings.model_fields.values()), "every field says what it is"
    assert settings.model_json_schema()["additionalProperties"] is False


def test_the_defaults_of_settings_and_model_are_the_same() -> None:
    model = make_model("workload-profile", {}, "cpu")
    assert isinstance(model, WorkloadProfile)
    assert model.options == ProfileOptions()


def test_what_depends_on_the_resource_follows_it_unless_it_is_set() -> None:
    made = {resource: make_model("histogram", {}, resource) for resource in ("cpu", "memory")}
    options = {name: model.options for name, model in made.items() if isinstance(model, DecayingHistograms)}
    assert (options["cpu"].percentile, options["memory"].percentile) == (0.95, 0.98)
    assert options["memory"].half_life_seconds == 2 * options["cpu"].half_life_seconds
    given = make_model("histogram", {"percentile": 0.5}, "memory")
    assert isinstance(given, DecayingHistograms)
    assert given.options.percentile == 0.5


def test_settings_may_come_checked() -> None:
    model = make_model("nsigma-v1", NSigmaSettings(sigmas=3), "cpu")
    assert model.settings.sigmas == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nsigma", {}, "'nsigma' is unknown; use one of borg-default, "),
        ("nsigma-v1", {"sigmas": -1}, "model nsigma-v1: setting sigmas is -1: .*greater than or equal to 0"),
        ("nsigma-v1", {"sigma": 1}, "model nsigma-v1: setting sigma is 1: "),
        ("max", {"models": [["histogram", {"margin": "x"}]]}, "model histogram: setting margin is 'x'"),
    ],
)
def test_what_is_wrong_is_named(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_model(name, settings, "cpu")


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("borg-default", "overcommit", 1e300),  # a peak of nothing: everything would be lent
        ("borg-default", "overcommit", "inf"),
        ("histogram", "half_life_seconds", 1e-300),  # the same, for every sample is forgotten at once
        ("nsigma-v1", "sigmas", 1e308),  # a deviation without end, which no whole number holds
        ("nsigma-v2", "sigmas", "1e400"),
        ("nsigma-v1", "window_seconds", 1e-300),  # blocks of no time
        ("resource-central", "window_seconds", 5e-324),
        ("workload-profile", "live_days", 10**15),  # more memory than there is
        ("workload-profile", "live_days", 10**30),
        ("workload-profile", "size_reference", "inf"),
        ("max", "models", [["nsigma-v1", {}]] * 3000),  # 25 seconds in which nothing else is done, to be made
        ("max", "models", [["max", {"models": [["nsigma-v1", {}]]}]]),  # nested 400 deep: deeper than calls may be
    ],
)
def test_a_setting_that_no_model_can_work_with_is_refused(name: str, setting: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"model {name}: setting {setting} is "):
        make_model(name, {setting: value}, "cpu")


def test_others_may_bring_models_but_not_take_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint("theirs", BUILT_IN["nsigma-v1"], GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [theirs, EntryPoint("max", BUILT_IN["max"], GROUP)])
    assert "theirs" in names()
    assert make_model("theirs", {"sigmas": 1}, "cpu").name == "nsigma-v1"
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("max", "other:max", GROUP)])
    with pytest.raises(Misconfigured, match="two distributions install a model max"):
        names()
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("gone", "no_such_module:x", GROUP)])
    with pytest.raises(Misconfigured, match="entry point no_such_module:x must name a pair"):
        make_model("gone", {}, "cpu")
