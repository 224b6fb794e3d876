"""On real cgroups: pieces of the agent's state are lost or broken, or the kernel holds on to something."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from agent_machine import Machine, until

pytestmark = pytest.mark.root


async def test_a_job_whose_file_was_cut_off_runs_on_when_the_agent_starts_again(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", tier="prod")
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        procs = Path(service.driver.limit_knob(pod.uid).path).with_name("cgroup.procs")
    before = procs.read_text()
    file = machine.state_dir / f"agent/pods/{pod.uid}.json"
    file.write_text(file.read_text()[:40])
    async with machine.agent() as service:
        assert service.driver.pods() == ()
    assert procs.read_text() == before != ""
    assert job.poll() is None
    job.terminate()
    await until(lambda: job.poll() is not None)
    assert job.returncode == 128 + signal.SIGTERM
    assert machine.directories() == []


async def test_a_process_that_cannot_be_ended_does_not_hold_up_the_samples(machine: Machine) -> None:
    """Frozen as a whole by somebody else (cgroup v1), it takes not even SIGKILL; its supervisor is dead."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists():
        pytest.skip("no freezer of cgroup v1 on this machine")
    place = freezer / f"slackwater-test-{os.getpid()}"
    place.mkdir()
    try:
        job = machine.execute("sleep", "1000")
        async with machine.agent() as service:
            [pod] = await machine.pod(service)
            procs = Path(service.driver.limit_knob(pod.uid).path).with_name("cgroup.procs")
            (place / "cgroup.procs").write_text(procs.read_text())
            (place / "freezer.state").write_text("FROZEN")
            os.kill(job.pid, signal.SIGKILL)
            job.wait()
            longest = 0.0
            for _ in range(12):
                begun = time.monotonic()
                service.driver.sample()
                longest = max(longest, time.monotonic() - begun)
            assert longest < 1.0
            (place / "freezer.state").write_text("THAWED")
            await until(lambda: not service.driver.pods())
    finally:
        (place / "freezer.state").write_text("THAWED")
        for _ in range(100):
            if not (place / "cgroup.procs").read_text():
                break
            time.sleep(0.02)
        place.rmdir()
    assert machine.directories() == []
