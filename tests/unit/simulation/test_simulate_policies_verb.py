"""The verb with policies on a trace: tables, JSON, a page, and errors that say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from small_histories import write_strategy, write_trace
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.pages.paper import template
from slackwater.simulation.edge.policy_page import SHOWN_GAPS, TEMPLATES, amount, signed, waterline
from slackwater.simulation.edge.policy_report import NodeGuarded, OpenGap, PolicyReport
from slackwater.simulation.edge.simulation_report import MOST_NODES

SMALL = ("--format", "csv", "--vms-per-node", "3", "--model", "max", "--batch", "50%", "--overcommit", "1.5")
COARSE = (*SMALL, "--control", "30s")
"""A sixth of the work, where the figures do not matter."""


def write_policy(path: Path, value: str) -> Path:
    path.write_text(
        "apiVersion: slackwater.io/v1alpha1\nkind: NodeQOS\nmetadata: {name: default}\nspec:\n  rules:\n"
        f"    - {{name: cpu, metricRule: {{name: node_cpu_usage_ratio, value: {value}}}, coolDownSeconds: 60}}\n"
    )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("policies")
    write_trace(made / "usage.csv", hours=26)
    write_policy(made / "strict.yaml", "30%")
    write_policy(made / "lax.yaml", "60%")
    write_strategy(made / "bold.yaml", "bold")
    return made


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_the_table_has_todays_policy_the_new_one_and_the_difference(folder: Path) -> None:
    done = simulate("-f", folder / "strict.yaml", "--trace", folder / "usage.csv", *SMALL, "--to", "0.5")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("usage.csv: 2 nodes, 12 hours from 2026-03-02T00:00:00Z, control period 5 s")
    assert "batch: 3 of the series, selected at random (--seed 1); all others are prod" in lines
    assert ["FIGURE", "default", "strict", "strict", "-", "default"] in [line.split() for line in lines]
    (throttled,) = [line.split() for line in lines if line.startswith("throttle-seconds of pods")]
    assert throttled[3] == "0"
    assert throttled[5] == f"+{throttled[4]}"
    (above,) = [line.split() for line in lines if line.startswith("node_cpu_usage_ratio 30%, s")]
    before, after = (int(number.replace(",", "")) for number in above[3:5])
    assert 0 < after < before
    assert any(line.startswith("throttle_waterline_crossed") for line in lines)


def test_two_files_are_compared_and_the_same_command_gives_the_same_answer(folder: Path) -> None:
    files = ("-f", folder / "lax.yaml", "-f", folder / "strict.yaml")
    arguments = (
        *files,
        "--trace",
        folder / "usage.csv",
        *COARSE,
        "--to",
        "0.5",
        "-o",
        "json",
        "--carry-over",
        "50%",
    )
    done = simulate(*arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout == simulate(*arguments).stdout
    answer = PolicyReport.model_validate_json(done.stdout)
    assert [one.name for one in answer.policies] == ["default", "lax", "strict"]
    assert [(one.name, one.against) for one in answer.differences][-1] == ("strict", "lax")
    _, lax, strict = answer.policies
    assert [one.value for one in strict.waterlines][:2] == ["0.3", "0.6"]
    assert strict.waterlines[0].seconds < lax.waterlines[0].seconds
    assert (answer.history.look_seconds, answer.history.carried_percent) == (30, 50)


def test_batch_fills_the_offers_by_default(folder: Path) -> None:
    order = (*SMALL[:6], "--control", "30s", "--to", "0.5")
    arguments = ("--trace", folder / "usage.csv", *order, "--batch-pods", "2", "-o", "json")
    done = simulate("-f", folder / "strict.yaml", *arguments)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert any(
        "2 pods on each node, whose demand is all that the default strategy" in note
        for note in answer["history"]["notes"]
    )
    assert answer["policies"][0]["batch_core_hours"] > answer["policies"][1]["batch_core_hours"] > 0


def test_the_page_needs_nothing_else_and_has_its_pictures(folder: Path) -> None:
    page = folder / "report.html"
    hostile = write_trace(folder / "<b onclick=x>&.csv", hours=26)
    done = simulate("-f", folder / "strict.yaml", "--trace", hostile, *COARSE, "--to", "0.5", "--html", page)
    assert done.exit_code == 0, done.output
    assert f"wrote {page}" in done.stderr
    text = page.read_text()
    assert "<b onclick" not in text
    assert not re.search(r"(src|href)=|@import|url\(|<script", text)
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) == 3 + 1, "three metrics and the throttle-seconds"
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - drawn by us a moment ago
        assert "nan" not in picture.lower()


def test_mistakes_are_said_in_one_line(folder: Path) -> None:
    policy, trace = ("-f", folder / "strict.yaml"), ("--trace", folder / "usage.csv")
    for more, said in {
        ("--control", "7s"): "--control: 7 s does not divide the sample of 300 s; give a divisor, such as 5s or 300s",
        ("--control", "x"): "--control: 'x' is not allowed; allowed: a duration such as 90s",
        ("--return", "x"): "--return: 'x' is not allowed; allowed: never, or a duration such as 10m",
        ("--carry-over", "0.5"): "--carry-over: '0.5' is not allowed; allowed: whole percents, 0% to 100%",
        ("--batch", "most"): "--batch: 'most' is not allowed; `fill`, or a share",
        ("--step", "5m"): "--step: applies to strategies; policies are replayed on every window",
        ("-f", str(folder / "bold.yaml")): "run the command once for each",
    }.items():
        done = simulate(*policy, *trace, *SMALL, *more)
        assert done.exit_code == 2, (more, done.output)
        assert said in done.stderr
    done = simulate(*policy, "--since", "1h", "--overcommit", "2")
    assert done.exit_code == 2
    assert "--overcommit: applies to --trace; recorded history has its own batch pods" in done.stderr


def test_the_page_says_what_it_leaves_out(folder: Path) -> None:
    done = simulate("-f", folder / "strict.yaml", "--trace", folder / "usage.csv", *COARSE, "--to", "0.5", "-o", "json")
    report = PolicyReport.model_validate_json(done.stdout)
    gaps = [
        OpenGap(kind="throttle", metric="cpu", because=f"reason {n}", seconds=99 - n, largest=None, unit="")
        for n in range(SHOWN_GAPS + 3)
    ]
    nodes = [NodeGuarded(node=f"node-{n}", above_seconds=9, throttle_seconds=0, evictions=0) for n in range(MOST_NODES)]
    long = report.policies[0].model_copy(update={"gaps": gaps, "worst_nodes": nodes})
    shown = template(TEMPLATES, "policies.html", amount=amount, signed=signed, waterline=waterline).render(
        report=report.model_copy(update={"policies": [long]}),
        shown=[], pictures=[], hours=1, bars="", shown_gaps=SHOWN_GAPS, most_nodes=MOST_NODES,
    )  # fmt: skip
    assert "reason 9" in shown
    assert "reason 10" not in shown
    assert "and 3 more, open for less time" in shown
    assert all(f"node-{n}<" in shown for n in range(MOST_NODES))
    assert "Of each policy at most 10." in shown
