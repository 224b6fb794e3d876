"""The tables of the page of backtests."""

from __future__ import annotations

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


def test_a_table_names_the_command_and_has_a_row_for_each_model(tool: ModuleType) -> None:
    lines = "\n".join(tool.table(tool.RUNS[0], answer(5)))
    assert "--churn 2d --seeds 5 --models max`" in lines
    assert "500 series, 25 machines, day 8 to 29." in lines
    assert "| max | 10.00 [5.00..20.00] | 25.0 | 1.25 | 70.0 [69.0..71.0] |" in lines


def test_where_nothing_was_drawn_there_is_no_range(tool: ModuleType) -> None:
    assert "| max | 10.00 | 25.0 | 1.25 | 70.0 |" in "\n".join(tool.table(tool.RUNS[0], answer(1)))


def test_only_what_is_behind_the_mark_is_written_anew(tool: ModuleType) -> None:
    page = f"said by hand\n{tool.BEGIN}\n\nold\n"
    assert tool.written(page, ["new", ""]) == f"said by hand\n{tool.BEGIN}\n\nnew\n"
    with pytest.raises(ValueError, match="no line"):
        tool.written("said by hand", [])


def test_the_page_has_the_mark_and_every_run_a_name_of_its_own(tool: ModuleType) -> None:
    assert tool.BEGIN in tool.PAGE.read_text()
    assert len({run.name for run in tool.RUNS}) == len(tool.RUNS)
