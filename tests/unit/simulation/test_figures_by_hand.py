"""Two machines and twenty minutes: every figure can be computed with pencil and paper, and all that is shown says it.

A has 4 cores and uses 1, 1, 2 and 2 of them. B has 2 cores, comes after ten minutes and uses 1.5. Both have a
predicted peak of a quarter of what they have; more usage counts as used. At 100 % of a node, published at once:

    A is offered    -     3     3     2     cores; with what it uses, the third is one too many
    B is offered                -     0.5   and is full then
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import Result
from small_histories import write_strategy
from typer.testing import CliRunner

from slackwater.cli.main import app

GIB = 2**30
LATE = [(0, "a", 1), (300, "a", 1), (600, "a", 2), (900, "a", 2), (600, "b", 1.5), (900, "b", 1.5)]
ON = ("--format", "csv", "--vms-per-node", "1", "--model", "borg-default:overcommit=4")
BY_HAND = {
    "capacity_hours": (4 * 4 + 2 * 2) / 12,
    "prod_hours": (6 + 3) / 12,
    "batch_hours": (3 + 3 + 2 + 0.5) / 12,
    "reclaimed_share": 8.5 / 20,
    "exceeded_minutes": 5,
    "exceeded_share": 5 / 30,
    "any_node_minutes": 5,
    "excess_hours": 1 / 12,
    "episodes": 1,
    "longest_episode_minutes": 5,
    "changes_per_hour": 3 / 0.5,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["time,pod,cpu_milli,cpu_limit_milli,memory_bytes,memory_limit_bytes"]
    for at, pod, used in LATE:
        most = 4 if pod == "a" else 2
        lines.append(f"{at},{pod},{used * 1000:.0f},{most * 1000},{used * GIB:.0f},{most * GIB}")
    (tmp_path / "late.csv").write_text("\n".join(lines))
    percents = {"cpuReclaimThresholdPercent": 100, "memoryReclaimThresholdPercent": 100}
    write_strategy(tmp_path / "bold.yaml", "bold", riseWindows=1, **percents)
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(app, [arguments[0], "--trace", str(folder / "late.csv"), *ON, *arguments[1:]])
    assert done.exit_code == 0, done.output
    return done


def test_json_table_and_page_say_what_was_computed_by_hand(folder: Path) -> None:
    asked = ("simulate", "-f", str(folder / "bold.yaml"), "--html", str(folder / "r.html"))
    answer = json.loads(run(folder, *asked, "-o", "json").stdout)
    bold = answer["strategies"][1]
    for resource in ("cpu", "memory"):
        assert {name: bold[resource][name] for name in BY_HAND} == pytest.approx(BY_HAND, abs=1e-6)
    assert answer["history"]["notes"][-1] == (
        "in 25.0% of the cells a node has no series with a sample: it counts as absent"
    )
    shown = run(folder, *asked).stdout
    page = unescape(re.sub(r"<[^>]+>", " ", (folder / "r.html").read_text())).replace("\xa0", " ")
    for said, in_table, on_page in (
        ("offered to batch, core-hours", "0.71", "0.71"),
        ("offered to batch, GiB-hours", "0.71", "0.71"),
        ("share of the capacity", "42.50%", "42.500 %"),
        ("node minutes beyond capacity", "5", "5.00"),
        ("share of node minutes", "16.667%", "16.667 %"),
        ("minutes with any such node", "5", "5.00"),
        ("longest episode, minutes", "5", "5.00"),
        ("excess, core-hours", "0.08", "0.08"),
        ("changes per hour and node", "6.00", "6.00"),
    ):
        assert re.search(rf"^{said} +[\d.%]+ +{re.escape(in_table)} ", shown, re.M), (said, shown)
        assert re.search(rf"{said[0].upper()}{said[1:]}\s+[\d.]+( %)?\s+{re.escape(on_page)}\s", page), said


def test_an_assessment_lends_the_same(folder: Path) -> None:
    """But that a rise is told after two windows, as by default: B is offered nothing."""
    answer = json.loads(run(folder, "assess", "--percent", "100", "-o", "json").stdout)
    for resource in ("cpu", "memory"):
        found = answer[resource]["choices"][1]
        assert found["reclaimable_hours"] == pytest.approx(8 / 12, abs=1e-3)
        assert found["reclaimable_share"] == pytest.approx(8 / 20)
        assert (found["exceeded_minutes"], found["longest_episode_minutes"]) == (5, 5)
        assert found["exceeded_share"] == pytest.approx(5 / 30)
    assert [answer["cpu"]["used"][name] for name in ("p50", "max")] == [2250, 3500]
    assert answer["memory"]["capacity"] == 6 * GIB
