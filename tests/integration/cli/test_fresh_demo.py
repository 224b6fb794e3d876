"""`slackwater up --demo` starts without anything of an earlier run, however that ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from slackwater.model.errors import NotFound
from slackwater.runtime.state import DEMO, VARIABLE, StateDir

BOUND_SECONDS = 300.0


class Demo:
    """One run of the demo on a simulated fleet."""

    def __init__(self, state_dir: Path, nodes: int) -> None:
        command = ("up", "--demo", "--driver", "simulated", "--nodes", str(nodes), "--port", "0")
        self._state = StateDir(state_dir / DEMO)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slackwater.cli", *command],
            env={**os.environ, VARIABLE: str(state_dir)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def items(self, path: str) -> list[dict[str, Any]]:
        """The items of a list route; none while the run is not up, or does not answer in time."""
        try:
            url = self._state.running_endpoint().http_url
            return list(httpx2.get(f"{url}{path}", timeout=30.0).raise_for_status().json()["items"])
        except (NotFound, httpx2.HTTPError):
            assert self._process.poll() is None, "the demo has ended"
            return []

    def kill(self) -> None:
        """SIGKILL to all processes of the run, servers included."""
        if self._process.poll() is None:
            processes = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
            for process in processes:
                process.kill()
            psutil.wait_procs(processes)
        self._process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Demo]]:
    runs: list[Demo] = []

    def run(nodes: int) -> Demo:
        runs.append(Demo(tmp_path / "state", nodes))
        return runs[-1]

    yield run
    for demo in runs:
        demo.kill()


def until(look: Callable[[], Any]) -> Any:
    """Wait for something true; the time only bounds a failure."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.2)
    return seen


@pytest.mark.timeout(900)
def test_a_run_knows_nothing_of_one_that_was_killed(start: Callable[[int], Demo]) -> None:
    first = start(4)
    until(lambda: len(first.items("/v1/nodes")) == 4)
    until(lambda: first.items("/v1/pods"))
    until(lambda: first.items("/v1/decisions"))
    first.kill()
    killed_at = datetime.now(UTC)
    second = start(2)
    until(lambda: len(second.items("/v1/nodes")) == 2)
    until(lambda: second.items("/v1/pods"))
    decisions = until(lambda: second.items("/v1/decisions"))
    assert {node["name"] for node in second.items("/v1/nodes")} == {"sim-01", "sim-02"}
    assert {pod["node"] for pod in second.items("/v1/pods")} <= {"sim-01", "sim-02"}
    assert min(datetime.fromisoformat(decision["decided_at"]) for decision in decisions) > killed_at
