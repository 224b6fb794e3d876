"""On real cgroups: pieces of the agent's state are lost or broken, or the kernel holds on to something."""

from __future__ import annotations

import signal
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
