"""What lies in the agent's directory after a crash or another version: the agent starts, and harms nobody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_fakes import fake_hierarchy, pod

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.testing.clock import FakeClock


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"uid": "uid-1", "tier": "a tier of a newer version"}'])
def test_a_pod_whose_file_cannot_be_read_is_left_for_a_person_to_look_at(
    tmp_path: Path, job: subprocess.Popen[bytes], content: str
) -> None:
    layout = Layout(fake_hierarchy(tmp_path / "trees", "hybrid"), "test", tmp_path / "agent", 4)
    registry = PodRegistry(layout.agent_dir / "pods")
    registry.add(Entry(pod("uid-1"), process_of(job.pid), "test"))
    places = layout.make_pod(pod("uid-1").tier, "uid-1")
    procs = places[0] / "cgroup.procs"
    procs.write_text(f"{job.pid}\n")
    (registry.directory / "uid-1.json").write_text(content)
    driver = LinuxDriver(layout, FakeClock())
    driver.open()
    assert job.poll() is None, "its process runs on"
    assert all(place.exists() for place in places)
    assert driver.pods() == ()
    procs.write_text("")
    driver.close()
