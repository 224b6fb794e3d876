"""What a workload that the agent starts finds in its environment: nothing of the agent's."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.agent.adapters.linux.environment import workload_environment
from slackwater.agent.adapters.linux.launcher import ProcessLauncher
from slackwater.agent.adapters.linux.workload_files import WorkloadFiles, read_template
from slackwater.agent.domain.workload_template import ReadyCheck, WorkloadTemplate

DOCUMENT = """
apiVersion: slackwater.io/v1alpha1
kind: Workload
metadata: {name: api}
spec: {command: [env], tier: prod, environment: {PORT: "80", LANG: C}}
"""
WITHOUT_CGROUPS = """
import math, sys
from pathlib import Path
from slackwater.agent import command
from slackwater.agent.adapters.linux.supervise import Forwarder, run_child
from slackwater.agent.adapters.linux.workload_files import read_template

def run(_layout, _pod, arguments, *_, surroundings):
    return run_child(arguments, Forwarder(), (), surroundings=surroundings)

command._layout, command.run_managed = lambda *_: None, run
sys.exit(command.run_template(read_template(Path(sys.argv[1])), Path(sys.argv[2]), "test", "uid", {}, math.inf))
"""
"""A process of its own, as `exec` is: this one has threads of gRPC after other tests, which end its forks."""
SECRETS = {"SLACKWATER_NATS_PASSWORD": "hunter2", "SLACKWATER_AGENT_METRICS_TOKEN": "swordfish", "AWS_SECRET": "open"}


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkloadTemplate:
    for name, value in (SECRETS | {"LANG": "C.UTF-8", "LC_TIME": "C", "TZ": "UTC"}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "api.yaml").write_text(DOCUMENT)
    return read_template(tmp_path / "api.yaml")


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_workload_finds_a_short_list_and_what_it_declares(template: WorkloadTemplate, tmp_path: Path) -> None:
    assert template.name == "api"
    began = [sys.executable, "-c", WITHOUT_CGROUPS, str(tmp_path / "api.yaml"), str(tmp_path)]
    found = variables(subprocess.run(began, check=True, capture_output=True, text=True).stdout)
    assert (found["PORT"], found["LANG"], found["LC_TIME"], found["TZ"]) == ("80", "C", "C", "UTC")
    assert not any(name.startswith(("SLACKWATER", "AWS", "PYTHON")) for name in found)


def test_the_process_beside_a_workload_holds_no_secret_and_writes_a_closed_log(
    template: WorkloadTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nenv; echo end=$*\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    launcher = ProcessLauncher(WorkloadFiles(tmp_path), tmp_path / "state", "abcd")
    launcher.launch(template, "uid", {}, 60.0)
    log, deadline = tmp_path / "state/agent/logs/uid.log", time.monotonic() + 60
    while "end=" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    found = variables(log.read_text())
    assert not any(name.startswith(("SLACKWATER", "AWS")) for name in found)
    assert "--instance abcd" in found["end"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (log, log.parent)] == [0o600, 0o700]


async def test_a_check_of_readiness_finds_what_its_workload_finds(template: WorkloadTemplate, tmp_path: Path) -> None:
    looks = ReadyCheck(command=("sh", "-c", 'test "$PORT" = 80 && test -z "$SLACKWATER_NATS_PASSWORD$AWS_SECRET"'))
    launcher = ProcessLauncher(WorkloadFiles(tmp_path), tmp_path, "abcd")
    assert await launcher.is_ready(replace(template, ready=looks))


def test_an_environment_always_has_a_path() -> None:
    assert workload_environment({"A": "1"}, {}).keys() == {"A", "PATH"}
    assert workload_environment({"PATH": "/opt"}, {"PATH": "/bin"}) == {"PATH": "/opt"}


def test_why_a_pod_ended_reads_the_end_of_its_log_and_follows_no_link(tmp_path: Path) -> None:
    launcher = ProcessLauncher(WorkloadFiles(tmp_path), tmp_path, "test")
    logs = tmp_path / "agent" / "logs"
    logs.mkdir(parents=True)
    with (logs / "uid.log").open("wb") as log:
        log.truncate(1 << 40)  # sparse; nothing could read it as a whole
        log.seek(0, 2)
        log.write(b"\nno such port\n")
    assert launcher.why_ended("uid").endswith("it wrote last: no such port")
    (tmp_path / "secret").write_text("hunter2")
    (logs / "linked.log").symlink_to(tmp_path / "secret")
    assert "hunter2" not in launcher.why_ended("linked")
