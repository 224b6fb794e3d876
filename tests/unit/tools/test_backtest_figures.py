"""The tables of the page of backtests."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("backtest_figures", ROOT / "tools" / "backtest_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "backtest_figures", module)  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def model(name: str, violation: float) -> dict[str, object]:
    spread = {"mean": violation, "least": violation / 2, "greatest": violation * 2}
    return {
        "model": name,
        "violation": spread,
        "violation_by_machine": {"p90": 0.25},
        "severity": {"mean": 0.0125},
        "savings": {"mean": 0.7, "least": 0.69, "greatest": 0.71},
    }


def answer(placements: int) -> dict[str, object]:
    return {
        "trace": {"series": 500},
        "placement": {"machines": 25, "placements": placements},
        "evaluated": {"from_day": 8.0, "to_day": 29.0},
        "models": [model("oracle", 0.0), model("max", 0.1)],
    }


def test_a_run_names_its_options_and_size(tool: ModuleType) -> None:
    line = tool.run_line(tool.RUNS[0], answer(5))
    assert line.startswith("- `bitbrains-RESOURCE-2d`: `--trace bitbrains_rnd/")
    assert line.endswith("--churn 2d --seeds 5`; 500 series on 25 machines, days 8 to 29")


def test_each_model_has_a_row_of_percents_with_the_range_of_its_placements(tool: ModuleType) -> None:
    _, row = tool.rows(tool.RUNS[0], answer(5))
    assert ",".join(row.values()) == "bitbrains-cpu-2d,max,10.00,5.00,20.00,25.0,1.25,70.0,69.0,71.0"


def test_where_nothing_was_drawn_there_is_no_range(tool: ModuleType) -> None:
    _, row = tool.rows(tool.RUNS[0], answer(1))
    assert ",".join(row.values()) == "bitbrains-cpu-2d,max,10.00,,,25.0,1.25,70.0,,"


def test_an_overview_compares_the_runs_that_have_every_model_with_its_defaults(tool: ModuleType) -> None:
    found = [*tool.rows(tool.RUNS[0], answer(5)), *list(tool.rows(tool.RUNS[2], answer(5)))[:1]]
    found += tool.rows(tool.RUNS[1], answer(5))
    found.append({**found[0], "model": "max:knob=1"})
    assert list(tool.overview(found, "cpu")) == [
        "| model | `bitbrains-cpu-2d` | `bitbrains-cpu-none` |",
        "|---|---|---|",
        "| oracle | 0.00, 70.0 | 0.00, 70.0 |",
        "| max | 10.00, 70.0 | |",
    ]
    assert [line for line in tool.overview(found, "memory") if "`" in line or "," in line] == []


def test_the_page_shows_the_figures_of_the_file_beside_it(tool: ModuleType) -> None:
    with tool.DATA.open() as file:
        found = list(csv.DictReader(file))
    assert {row["run"] for row in found} == {run.name for run in tool.RUNS}
    page = tool.PAGE.read_text()
    for resource in ("cpu", "memory"):
        assert "\n".join(tool.overview(found, resource)) in page


def test_only_what_is_behind_the_mark_is_written_anew(tool: ModuleType) -> None:
    page = f"said by hand\n{tool.BEGIN}\n\nold\n"
    assert tool.written(page, ["new", ""]) == f"said by hand\n{tool.BEGIN}\n\nnew\n"
    with pytest.raises(ValueError, match="no line"):
        tool.written("said by hand", [])


def test_the_page_has_the_mark_and_every_run_a_name_of_its_own(tool: ModuleType) -> None:
    assert tool.BEGIN in tool.PAGE.read_text()
    assert len({run.name for run in tool.RUNS}) == len(tool.RUNS)
