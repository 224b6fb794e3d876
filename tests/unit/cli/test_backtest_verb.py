"""The verb on the example that comes with the project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from slackwater.cli.backtest import days_of
from slackwater.cli.main import app
from slackwater.model.errors import InvalidInput
from slackwater.prediction.adapters.predictors.registry import names

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "backtest_usage.csv"
SHARED = Path(os.environ.get("SLACKWATER_TRACES", ROOT.parent / "shared" / "data"))
"""Real traces lie beside the checkout, not in it: their licences differ."""


def backtest(*more: str, trace: Path = EXAMPLE, form: str = "csv") -> Result:
    return CliRunner().invoke(app, ["backtest", "--trace", str(trace), "--format", form, *more])


SMALL = ("--vms-per-node", "3", "--seeds", "2", "--models", "borg-default,workload-profile:knob=0.15")


def test_the_table_names_what_was_judged_and_has_the_oracle_above_the_models() -> None:
    done = backtest(*SMALL, "--churn", "12h")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "backtest_usage.csv (csv), cpu: 6 series, 5.0 days"
    assert "3 on each of 2 machines, mean stay 0.5 days; 2 placements; day 2 to" in lines[1]
    rows = {line.split()[0]: line.split() for line in lines if line}
    names = [line.split()[0] for line in lines if "%" in line and ".." in line]
    assert names == ["oracle", "borg-default", "workload-profile:knob=0.15"]
    assert rows["oracle"][1] == "0.00%"
    assert rows["borg-default"][7] == "9.09%"


def test_json_is_an_object_and_the_bar_is_not_in_it() -> None:
    done = backtest(*SMALL, "-o", "json", "--resource", "memory", "--from", "2", "--to", "2026-03-05")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["trace"]["resource"] == "memory"
    assert answer["evaluated"]["to_day"] == 3
    assert [one["model"] for one in answer["models"]] == ["oracle", "borg-default", "workload-profile:knob=0.15"]
    assert answer["models"][2]["settings"]["knob"] == 0.15


def test_all_models_on_a_trace_of_ones_own_as_the_help_says(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    given = ("--resource", "memory", "--models", "all", "--vms-per-node", "3", "--churn", "2d", "--seeds", "1")
    done = backtest(*given, "--from", "2", "--to", "3", "-o", "table", "--html", str(page))
    assert done.exit_code == 0, done.output
    models = {line.split()[0] for line in done.stdout.splitlines() if "%" in line and ".." in line}
    assert models >= {"oracle", "workload-profile", "workload-profile:knob=0.20", *names()}
    assert all(name in page.read_text() for name in names())


def test_a_page_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = backtest(*SMALL, "--html", str(page))
    assert done.exit_code == 0, done.output
    assert f"wrote {page}" in done.stderr
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--churn", "often"), "--churn: 'often' is not allowed; none, or a mean stay: 2d, 12h"),
        (("--churn", "0d"), "--churn: '0d' is not allowed"),
        (("--models", "crystal-ball"), "there is no model 'crystal-ball'"),
        (("--vms-per-node", "6", "--churn", "2d"), "churn needs two machines"),
        (("--html", "/nowhere/report.html"), "--html: folder /nowhere does not exist"),
        (("--from", "4"), "nothing to evaluate"),
    ],
)
def test_what_was_asked_wrongly_is_one_line_and_status_2(arguments: tuple[str, ...], said: str) -> None:
    done = backtest("--seeds", "1", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_trace_that_is_not_there_is_status_2(tmp_path: Path) -> None:
    done = backtest(trace=tmp_path / "lost.csv")
    assert done.exit_code == 2
    assert "does not exist" in done.stderr


def test_models_and_their_settings_can_be_listed_without_a_trace() -> None:
    done = CliRunner().invoke(app, ["backtest", "--list-models"])
    assert done.exit_code == 0, done.output
    assert "workload-profile: " in done.stdout
    assert "  knob=None  " in done.stdout
    assert "  young_knob=0.3  " in done.stdout


def test_a_mean_stay_is_in_days_or_hours() -> None:
    assert (days_of("none"), days_of("2d"), days_of("0.5d"), days_of("12h")) == (None, 2, 0.5, 0.5)
    with pytest.raises(InvalidInput):
        days_of("2w")


def test_no_service_and_no_help_loads_pyarrow() -> None:
    """170 MB that only a parquet trace needs."""
    modules = "slackwater.cli.main, slackwater.cli.backtest, slackwater.prediction.service, slackwater.backtest.service"
    code = f"import sys, {modules}; print(*sorted({{'pyarrow', 'pandas'}} & set(sys.modules)))"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_real_fixture_under_churn() -> None:
    """60 real VMs over four weeks; one placement, a few days: that figures are of the known order, not a gate."""
    fixture = SHARED / "bitbrains_rnd" / "fixture_60vm_4weeks.parquet"
    if not fixture.is_file():
        pytest.skip(f"no real traces at {SHARED}: set SLACKWATER_TRACES")
    models = "borg-default,resource-central,workload-profile"
    limits = ("--churn", "2d", "--seeds", "1", "--from", "8", "--to", "11", "--models", models)
    done = backtest(*limits, "-o", "json", trace=fixture, form="bitbrains")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    oracle, borg, central, profile = answer["models"]
    assert answer["trace"]["series"] == 60
    assert 0.8 < oracle["savings"]["mean"] < 0.95
    assert borg["savings"]["mean"] == pytest.approx(1 / 11)
    assert central["violation"]["mean"] > 0.1
    assert profile["violation"]["mean"] < central["violation"]["mean"]
    assert profile["savings"]["mean"] > 0.6
