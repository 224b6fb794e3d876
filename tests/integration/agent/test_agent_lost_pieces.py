"""On real cgroups: pieces of the agent's state are lost or broken, or the kernel holds on to something."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from agent_machine import Machine, until
from tests.faults.disk import SmallDisk
from tests.faults.scenario import Skipped

from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.events.intent_observed import IntentObserved

pytestmark = pytest.mark.root


async def test_a_job_whose_file_was_cut_off_runs_on_when_the_agent_starts_again(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", tier="prod")
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        procs = Path(service.driver.knob(CPU_LIMIT, pod.uid).path).with_name("cgroup.procs")
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
    """Frozen as a whole by another program (cgroup v1), it ignores even SIGKILL; its supervisor is dead."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists():
        pytest.skip("only with cgroup v1: this machine has no freezer of it")
    place = freezer / f"slackwater-test-{os.getpid()}"
    place.mkdir()
    try:
        job = machine.execute("sleep", "1000")
        async with machine.agent() as service:
            [pod] = await machine.pod(service)
            procs = Path(service.driver.knob(CPU_LIMIT, pod.uid).path).with_name("cgroup.procs")
            (place / "cgroup.procs").write_text(procs.read_text())
            (place / "freezer.state").write_text("FROZEN")
            os.kill(job.pid, signal.SIGKILL)
            job.wait()
            await asyncio.to_thread(lambda: [service.driver.sample() for _ in range(12)])  # returns, frozen as it is
            assert service.driver.pods(), "the frozen process is still there"
            (place / "freezer.state").write_text("THAWED")
            await until(lambda: not service.driver.pods())
    finally:
        (place / "freezer.state").write_text("THAWED")
        await until(lambda: not (place / "cgroup.procs").read_text())
        place.rmdir()
    assert machine.directories() == []


async def test_on_a_full_disk_it_goes_on_writes_nothing_new_and_gives_everything_back(machine: Machine) -> None:
    disk = SmallDisk(machine.state_dir / "agent", 1 << 20)
    try:
        mounted = disk.__enter__()
    except Skipped as reason:
        pytest.skip(str(reason))
    try:
        jobs = [machine.execute("sleep", "1000"), machine.execute("sleep", "1000")]
        async with machine.agent() as service:
            first, second = await machine.pod(service, 2)
            files = [Path(service.driver.knob(CPU_LIMIT, pod.uid).path) for pod in (first, second)]
            before = [file.read_text() for file in files]
            wanted = {"pod_uid": first.uid, "cpu_limit_milli": 250, "decision_id": "d1"}
            await machine.declare(throttles=[wanted])
            await until(lambda: files[0].read_text() != before[0])
            mounted.fill()

            def refused() -> bool:
                told = [limit for event in machine.published(IntentObserved) for limit in event.data.limits]
                return any(limit.error == "journal_not_written" for limit in told)

            async with asyncio.timeout(60):
                while not refused():  # the last page of the journal still has room
                    await machine.declare(throttles=[wanted | {"cpu_limit_milli": 200 + machine.generation % 7}])
                    await asyncio.sleep(0.02)
            throttled = files[0].read_text()
            more = {"pod_uid": second.uid, "cpu_limit_milli": 250, "decision_id": "d2"}
            await machine.declare(throttles=[wanted, more])
            await asyncio.sleep(0.3)
            assert [file.read_text() for file in files] == [throttled, before[1]]
            mounted.clear()
            await until(lambda: files[1].read_text() != before[1])
            mounted.fill()
        assert service.restored_exactly
        assert [file.read_text() for file in files] == before
        async with machine.agent() as again:  # it starts on a full disk, too
            assert len(again.driver.pods()) == 2
        for job in jobs:
            job.terminate()
            await until(lambda job=job: job.poll() is not None)
    finally:
        disk.__exit__()
    assert machine.directories() == []
