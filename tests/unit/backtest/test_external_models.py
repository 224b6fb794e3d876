"""External models that fail: they are named, and only runs that asked for them fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_models import SaysLast, SaysLimits, SaysNonsense, answer
from typer.testing import CliRunner

from slackwater.backtest.adapters.external_models import ExternalModel
from slackwater.cli.main import app
from slackwater.model.errors import Misconfigured
from slackwater.peaks.port import Floats, Members, Peaks

ORIGIN = "model odd of odd-models 1.0"
HERE = Members(np.array([0, 0, 2]), np.arange(3), np.arange(3), np.array([1.0, 2.0, 4.0]), np.array([3.0, 0.0, 4.0]))


class Raises(SaysLimits):
    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        raise OSError("no disk")


class Negative(SaysLimits):
    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        return answer(members, -members.limit)


class OfOne(SaysLimits):
    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        return Peaks(np.zeros(1), {}, np.zeros(1))


class Says(SaysLimits):
    def __init__(self, peak: list[float]) -> None:
        self.peak = np.array(peak)

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        return Peaks(self.peak, {}, np.zeros(3))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Raises, "fold raised OSError: no disk"),
        (SaysNonsense, "peaks returned nan for 2 of 2 machines"),
        (Negative, "peaks returned -3.0 for 2 of 2 machines"),
        (OfOne, "peaks returned no array with one peak per machine"),
        (object, "the factory returned object, which lacks name or version"),
        (lambda: 1 / 0, "the factory raised ZeroDivisionError"),
    ],
)
def test_what_it_does_wrong_is_said_with_its_name(made: type, said: str) -> None:
    with pytest.raises(Misconfigured, match=f"^{ORIGIN}: {said}"):
        _fed(ExternalModel(ORIGIN, made))


def _fed(model: ExternalModel) -> Peaks:
    model.fold(300.0, HERE, np.array([0.5, 1.0, 2.0]))
    return model.peaks(300.0, HERE)


def test_what_it_does_well_is_its_answer() -> None:
    found = ExternalModel(ORIGIN, SaysLast)
    assert (found.name, found.version) == ("last", "1")
    assert _fed(found).peak.tolist() == [1.5, 0, 2]


def test_peaks_are_bounded_by_the_limits_and_zero_on_empty_machines() -> None:
    assert _fed(ExternalModel(ORIGIN, lambda: Says([9.0, np.nan, 1.0]))).peak.tolist() == [3, 0, 1]


MODULE = """
import numpy as np
from slackwater.prediction.adapters.predictors.settings import PredictorSettings
from slackwater.peaks.borg_default import BorgDefault

class Settings(PredictorSettings):
    "Of a model that is odd."

class Odd(BorgDefault):
    name = "odd"

    def peaks(self, at_seconds, members):
        found = super().peaks(at_seconds, members)
        found.peak[:] = np.nan
        return found

odd = (Settings, lambda settings, resource: Odd(1.0))
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the current folder, as an installer leaves it behind."""
    (tmp_path / "odd_models_here.py").write_text(MODULE)
    metadata = tmp_path / "odd_models-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-models\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[slackwater.predictors]\nodd = odd_models_here:odd\nlost = odd_models_here:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bold.yaml").write_text(
        "kind: ColocationStrategy\nmetadata: {name: bold}\nspec: {cpuReclaimThresholdPercent: 90}\n"
    )
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("odd_models_here", None)


EXAMPLE = Path(__file__).parents[3] / "examples" / "backtest_usage.csv"
TRACE = ("--trace", str(EXAMPLE), "--format", "csv", "--vms-per-node", "3")
VERBS = (
    ("backtest", "--models", "odd", "--from", "0"),
    ("assess", "--model", "odd"),
    ("simulate", "--model", "odd", "-f", "bold.yaml"),
)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.usefixtures("installed")
def test_every_verb_says_so_in_one_line(verb: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*verb, *TRACE])
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith(f"slackwater: {ORIGIN}: peaks returned nan for ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.usefixtures("installed")
def test_a_broken_model_does_not_affect_others(verb: tuple[str, ...]) -> None:
    others = ["borg-default" if word == "odd" else word for word in verb]
    done = CliRunner().invoke(app, [*others, *TRACE])
    assert done.exit_code == 0, done.output
    broken = ["lost" if word == "odd" else word for word in verb]
    done = CliRunner().invoke(app, [*broken, *TRACE])
    assert done.exit_code == 1
    assert "model lost: entry point odd_models_here:nothing must name a pair" in done.stderr


@pytest.mark.usefixtures("installed")
def test_the_list_has_the_others_and_why_one_is_not_in_it() -> None:
    done = CliRunner().invoke(app, ["backtest", "--list-models"])
    assert done.exit_code == 0, done.output
    assert "odd: Of a model that is odd." in done.stdout
    assert "model lost: entry point" in done.stdout
    assert "workload-profile: " in done.stdout
