"""`slackwater exec --pool, --numa, --dry-run` and `slackwater why pod/NAME cpuset`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from slackwater.agent.adapters.placement_files import PLACEMENTS
from slackwater.agent.domain.admission import Command
from slackwater.cli.decision_text import print_pod
from slackwater.cli.main import app
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.plan_replay import PlanBasis, basis_document
from slackwater.kernels.topology.pools import PoolDemand, PoolRules

Run = Callable[..., Result]
MACHINE = CpuMachine(tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in range(4)))
EXEC = ("exec", "--tier", "prod", "--workload", "api", "--memory", "64Mi")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir(mode=0o700)
    rules = PoolRules(partitioned=False, named_apart=True, ramp_seconds=0.0)
    answer = {"off": "", "pods": {}, **basis_document(PlanBasis(MACHINE, [], PoolDemand(rules=rules), 0.0))}
    (tmp_path / "agent" / PLACEMENTS).write_text(json.dumps(answer))
    return tmp_path


def _exec(state: Path, *options: str) -> Result:
    return CliRunner().invoke(app, [*EXEC, *options, "--state-dir", str(state), "--", "false"])


def test_a_dry_run_shows_the_cpus_and_runs_nothing(state: Path) -> None:
    done = _exec(state, "--qos", "LSR", "--cpu", "2", "--name", "api", "--dry-run")
    assert (done.exit_code, done.stdout) == (0, "api: would run on CPUs 0-1\n")
    pool = _exec(state, "--pool", "blue", "--cpu", "1", "--name", "api", "--dry-run")
    assert pool.stdout.splitlines()[0] == "api: would run on CPUs 0"
    assert pool.stdout.splitlines()[1].startswith("blue: 0 -> 1 CPUs (new: needs 1 by requests 1000m")
    bound = _exec(state, "--numa", "--cpu", "1", "--qos", "LSR", "--dry-run")
    assert bound.exit_code == 0


def test_a_dry_run_of_what_cannot_be_has_the_status_of_a_refusal(state: Path) -> None:
    done = _exec(state, "--qos", "LSR", "--cpu", "4", "--name", "api", "--dry-run")
    assert (done.exit_code, done.stdout) == (125, "")
    assert "api: would be refused: main: cpu is not allocated: cpus: with 4 more dedicated ones" in done.stderr
    (state / "agent" / PLACEMENTS).write_text('{"off": "a reason"}')
    off = _exec(state, "--dry-run", "--name", "api")
    assert (off.exit_code, off.stderr) == (1, "slackwater exec: api: would run on any CPU: a reason\n")


@pytest.mark.parametrize("name", ["", "Blue", "reclaim", "share", "a" * 41, "a b"])
def test_a_name_that_is_no_pools_is_refused(state: Path, name: str) -> None:
    done = _exec(state, "--pool", name)
    assert done.exit_code == 2
    assert "is no name of a pool" in done.stderr


def test_the_options_are_labels_of_the_pod(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Command] = []

    def run_command(command: Command, state_dir: Path) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr("slackwater.agent.command.run_command", run_command)
    assert _exec(state, "--pool", "blue", "--numa", "--label", "a=b").exit_code == 0
    assert commands[0].labels == ("a=b", "slackwater.io/numa-bound=true", "slackwater.io/cpu-pool=blue")


def test_the_cpus_of_a_pod_are_shown_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"uid": "u", "name": "api", "namespace": "", "node": "n1", "seen_at": "2026-01-05T12:00:00Z"}
    part = {
        "id": "c1", "kind": "cpuset", "decided_at": "2026-01-05T12:00:00Z", "service": "agent", "rule": "",
        "reason": "cpuset_allocated", "chosen": True, "carried_out": True, "place": None, "candidates": 0, "order": "",
        "keys": [], "unit": "CPUs", "released": None, "would_release": None, "because": "", "evicted": False,
        "limit_before_milli": None, "limit_after_milli": None, "ended": None, "effect": None, "relief": "",
        "working": [],
        "cpuset": {"before": "", "after": "0-1", "memory_nodes": "0", "holder": "shared", "pool": "blue"},
    }  # fmt: skip
    console = Console(width=120, color_system=None, highlight=False)
    print_pod(console, {"pod": pod, "running": None, "decisions": [part]})
    text = capsys.readouterr().out
    assert "placed (cpuset allocated, rule none, by agent)" in text
    assert "any CPU -> CPUs 0-1, memory of NUMA nodes 0 (shared in the pool blue)" in text
    assert "effect" not in text


def test_a_pod_of_a_node_without_placements_is_told_so(run: Run) -> None:
    done = run("why", "pod/checkout-0", "cpuset", "--node", "edge-7")
    assert done.exit_code == 0, done.output
    assert "no CPUs were given out on node edge-7: its pods run on any" in done.stdout


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--pool", "blue"), "--label, --pool, --numa"),
        (("--numa",), "--label, --pool, --numa"),
        (("--dry-run",), "--dry-run"),
        (("--cpu", "2"), "--cpu"),
        (("--name", "api"), "--name"),
        (("--namespace", "shop"), "--namespace"),
    ],
)
def test_a_flag_beside_a_workload_file_is_refused_and_nothing_runs(
    state: Path, flags: tuple[str, ...], named: str
) -> None:
    line = ["exec", "--from", str(state / "job.yaml"), *flags, "--state-dir", str(state)]
    done = CliRunner().invoke(app, line)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        2,
        f"slackwater exec: {named}: stands beside --from; the file says it, or leave --from out",
    )
