"""The verb on a trace: tables, JSON, a page, and errors that say what to do."""

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
from slackwater.simulation.edge.simulation_report import SimulationReport

SMALL = ("--format", "csv", "--vms-per-node", "3", "--model", "max")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("simulate")
    write_trace(made / "usage.csv", hours=26)
    write_trace(made / "cpu.csv", hours=26, memory=False)
    write_strategy(made / "bold.yaml", "bold", cpuReclaimThresholdPercent=120, memoryReclaimThresholdPercent=120)
    write_strategy(made / "careful.yaml", "careful", cpuReclaimThresholdPercent=30, midReclaimMode="dynamic")
    return made


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_the_table_has_what_is_in_force_the_new_one_and_the_difference(folder: Path) -> None:
    done = simulate("-f", folder / "bold.yaml", "--trace", folder / "usage.csv", *SMALL)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("usage.csv: 2 nodes, 25.083 hours from 2026-03-02T00:00:00Z, offers every 300 s")
    head = [line.split() for line in lines if line.startswith(("CPU", "MEMORY"))]
    assert head == [[name, "default", "bold", "bold", "-", "default"] for name in ("CPU", "MEMORY")]
    offered = [line for line in lines if line.startswith("offered to batch")]
    assert len(offered) == 2
    assert all(re.search(r"\+[\d,.]+$", line) for line in offered)
    beyond = [int(number) for number in re.findall(r"node minutes beyond capacity +(\d+) +(\d+)", done.stdout)[0]]
    assert beyond[0] < beyond[1], "20 % more than there is must be too much at times"


def test_two_files_are_compared_with_each_other_as_well(folder: Path) -> None:
    files = ("-f", folder / "bold.yaml", "-f", folder / "careful.yaml")
    done = simulate(*files, "--trace", folder / "usage.csv", *SMALL, "-o", "json")
    assert done.exit_code == 0, done.output
    answer = SimulationReport.model_validate_json(done.stdout)
    assert [one.name for one in answer.strategies] == ["default", "bold", "careful"]
    pairs = [(one.name, one.against) for one in answer.differences]
    assert pairs == [("bold", "default"), ("careful", "default"), ("careful", "bold")]
    _, bold, careful = answer.strategies
    assert answer.differences[2].cpu["batch_hours"] == pytest.approx(careful.cpu.batch_hours - bold.cpu.batch_hours)
    for strategy in answer.strategies:
        for figures in (strategy.cpu, strategy.memory):
            assert figures.reclaimed_hours == pytest.approx(figures.batch_hours + figures.mid_hours, abs=1e-5)
    assert careful.memory.mid_hours > 0
    assert {bad.node for bad in bold.worst_nodes} <= {"node-1", "node-2"}
    assert bold.worst_nodes
    assert bold.specs == [{"enable": True, "cpuReclaimThresholdPercent": 120, "memoryReclaimThresholdPercent": 120}]


def test_the_same_command_gives_the_same_answer(folder: Path) -> None:
    arguments = (
        "-f",
        folder / "bold.yaml",
        "--trace",
        folder / "usage.csv",
        *SMALL,
        "--churn",
        "12h",
        "--to",
        "0.5",
        "-o",
        "json",
    )
    assert simulate(*arguments).stdout == simulate(*arguments).stdout


def test_one_resource_of_a_trace_that_has_no_other(folder: Path) -> None:
    refused = simulate("-f", folder / "bold.yaml", "--trace", folder / "cpu.csv", *SMALL)
    assert refused.exit_code == 2
    assert "no column memory_bytes" in refused.stderr
    done = simulate("-f", folder / "bold.yaml", "--trace", folder / "cpu.csv", *SMALL, "--resource", "cpu")
    assert done.exit_code == 0, done.output
    assert "MEMORY" not in done.stdout


def test_the_page_needs_nothing_else_and_has_its_pictures(folder: Path) -> None:
    page = folder / "report.html"
    hostile = write_trace(folder / "<b onclick=x>&.csv", hours=26)
    done = simulate("-f", folder / "bold.yaml", "--trace", hostile, *SMALL, "--html", page)
    assert done.exit_code == 0, done.output
    assert f"wrote {page}" in done.stderr
    text = page.read_text()
    assert "<b onclick" not in text
    assert "&lt;b onclick=x&gt;&amp;" in text
    assert not re.search(r"(src|href)=|@import|url\(|<script", text)
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) == 1 + 2 * 2
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - drawn by us a moment ago
        assert "nan" not in picture.lower()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: PredictPolicy\n", "kind: 'PredictPolicy' cannot be simulated; allowed: ColocationStrategy, NodeQOS"),
        ("kind: ColocationStrategy\n", "metadata: Field required"),
        ("kind: ColocationStrategy\nmetadata: {name: a}\nspec: [1]\n", "spec: Input should be a valid dictionary"),
        (
            "kind: ColocationStrategy\nmetadata: {name: a}\nspec: {cpuReclaimThresholdPercent: -1}\n",
            "spec.cpuReclaimThresholdPercent: cpuReclaimThresholdPercent: -1 is not allowed; a whole number from 0",
        ),
        (
            "kind: ColocationStrategy\nmetadata: {name: a}\nspec: {cpuReclaimTresholdPercent: 1}\n",
            "spec.cpuReclaimTresholdPercent: cpuReclaimTresholdPercent: there is no such field",
        ),
        (
            "kind: ColocationStrategy\napiVersion: v7\nmetadata: {name: a}\n",
            "apiVersion: Input should be 'slackwater.io/v1alpha1'",
        ),
        ("a: [\n", "is not YAML"),
        ("", "holds no strategy"),
    ],
)
def test_a_bad_strategy_names_its_field_before_the_trace_is_read(tmp_path: Path, text: str, said: str) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    done = simulate("-f", bad, "--trace", tmp_path / "none.csv", *SMALL)
    assert done.exit_code == 2
    assert said in done.stderr


def test_one_history_is_asked_for_and_a_trace_must_exist(folder: Path) -> None:
    strategy, trace = ("-f", folder / "bold.yaml"), ("--trace", folder / "usage.csv")
    for arguments, said in (
        ((), "give --trace PATH, or --since 24h"),
        ((*trace, "--since", "24h"), "give --trace PATH, or --since 24h"),
        (("--trace", folder / "none.csv"), "none.csv does not exist"),
        (("--since", "yesterday"), "--since: 'yesterday' is not allowed"),
        (("--since", "1h", "--step", "x"), "--step: 'x' is not allowed"),
        (("--since", "1h", "--model", "max"), "--model: applies only to --trace; recorded history has its own nodes"),
        (("--since", "1h", "--from", "1"), "--from: applies only to --trace"),
        ((*trace, "--format", "csv", "--step", "5m"), "--step: applies to --since"),
        ((*trace, "--format", "csv", "--server", "http://x"), "--server: applies only to --since"),
        (
            ("--since", "1h", "--batch", "fill"),
            "--batch: applies to policies (NodeQOS …), and these files hold strategies",
        ),
    ):
        done = simulate(*strategy, *arguments)
        assert done.exit_code == 2, done.output
        assert said in done.stderr


def test_other_mistakes_are_said_in_one_line(folder: Path) -> None:
    strategy, trace = ("-f", folder / "bold.yaml"), ("--trace", folder / "usage.csv")
    for more, said in {
        ("--from", "3"): "--from: 3 is outside of the trace",
        ("--from", "1", "--to", "0.5"): "--from is not before --to",
        ("--model", "none"): "--model: there is no model 'none'",
        ("--seed", "-1"): "--seed: -1 is not allowed; at least 0",
        ("--vms-per-node", "0"): "at least 1",
        ("--html", str(folder / "no" / "x.html")): "does not exist; create it",
    }.items():
        done = simulate(*strategy, *trace, *SMALL, *more)
        assert done.exit_code == 2, done.output
        assert said in done.stderr


def test_a_document_for_a_pool_is_tried_as_if_every_node_followed_it(folder: Path) -> None:
    pool = write_strategy(
        folder / "pool.yaml", "web", enable=None, nodeSelector={"matchLabels": {"role": "web"}}, precedence=3
    )
    done = simulate("-f", pool, "--trace", folder / "usage.csv", *SMALL, "-o", "json")
    assert done.exit_code == 0, done.output
    default, web = json.loads(done.stdout)["strategies"]
    assert web["cpu"] == default["cpu"], "what it leaves out is as by default, and switched on"


def test_documents_of_one_name_are_distinguished_by_their_files(folder: Path) -> None:
    other = write_strategy(folder / "other.yaml", "bold", enable=False)
    files = ("-f", folder / "bold.yaml", "-f", other)
    done = simulate(*files, "--trace", folder / "usage.csv", *SMALL, "-o", "json")
    assert [one["name"] for one in json.loads(done.stdout)["strategies"]] == ["default", "bold (bold)", "bold (other)"]
    assert json.loads(done.stdout)["strategies"][2]["cpu"]["reclaimed_hours"] == 0
