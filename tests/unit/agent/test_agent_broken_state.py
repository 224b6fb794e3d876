"""What lies in the agent's directory after a crash or another version: the agent starts, and harms no pod."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_fakes import fake_hierarchy, pod
from agent_world import World, eviction
from tests.support.clock import FakeClock

from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.events.eviction_completed import EvictionCompleted


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


@pytest.mark.parametrize("content", [b"", b"{", b"[7]", b'[{"id": "e1"}]', b"null", b"\xff\xfe"])
async def test_a_ledger_that_cannot_be_read_is_put_aside_and_the_agent_starts(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "evictions.json"
    file.write_bytes(content)
    world = World()
    world.driver.add(pod("a"))
    service = world.service()
    service.ledger = JsonLedger(file)
    async with world.running(service):
        await world.declare(evictions=[eviction(world, "a")])
        await world.clock.advance(1)
        assert [one.outcome for one in world.all(EvictionCompleted)] == ["terminated"]
    assert (tmp_path / "evictions.json.unreadable").read_bytes() == content
    assert list(JsonLedger(file).load()) == ["e1"]


def test_a_ledger_of_a_newer_version_is_read_without_what_is_not_known_here(tmp_path: Path) -> None:
    file = tmp_path / "evictions.json"
    item = {
        "id": "e1", "pod_uid": "a", "writer": "w", "decision_id": "d", "deadline": "2026-01-05T00:00:00+00:00",
        "grace_seconds": 5.0, "started_at": "2026-01-05T00:00:00+00:00", "outcome": "killed", "completed_at": None,
        "published": True, "a field of tomorrow": 7,
    }  # fmt: skip
    file.write_text(json.dumps([item]))
    assert JsonLedger(file).load()["e1"].outcome == "killed"


async def test_a_clock_that_was_set_back_lengthens_no_grace(tmp_path: Path) -> None:
    """It began by a clock that was an hour ahead; the agent starts again after the clock was put right."""
    world = World()
    world.driver.add(pod("a"))
    world.driver.stubborn.add("a")
    first, second = world.service(), world.service()
    first.ledger = second.ledger = JsonLedger(tmp_path / "evictions.json")
    async with world.running(first):
        await world.declare(evictions=[eviction(world, "a", grace=5.0, deadline=600.0)])
    items = json.loads((tmp_path / "evictions.json").read_text())
    items[0]["started_at"] = "2030-01-01T00:00:00+00:00"
    (tmp_path / "evictions.json").write_text(json.dumps(items))
    async with world.running(second):
        await world.clock.advance(6)
        assert world.driver.signals[-1] == ("a", signal.SIGKILL)
