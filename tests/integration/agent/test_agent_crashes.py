"""kill -9 at the worst moments: the next start gives back exactly what was there before."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agent_machine import NODE, REPOSITORY, Machine, until

from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.events.intent_observed import IntentObserved

pytestmark = pytest.mark.root

CRASHING = """
import os, signal, sys
from pathlib import Path
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.linux.driver import LinuxDriver, linux_driver
from slackwater.agent.domain.convergence import plan
from slackwater.agent.usecases.actuate import Actuator
from slackwater.model.time import SystemClock

class Crashing(LinuxDriver):
    def write(self, knob, text):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(knob, text)
        os.kill(os.getpid(), signal.SIGKILL)

state_dir, instance, when, *uids = sys.argv[1:]
plain = linux_driver(Path(state_dir), instance, SystemClock())
driver = Crashing(plain.layout, SystemClock())
actuator = Actuator(driver, LinesJournal(Path(state_dir) / "agent/journal"))
knobs = [driver.knob(CPU_LIMIT, uid) for uid in uids]
present = {knob: driver.read(knob) for knob in knobs}
actuator.perform(plan({knob: driver.render(knob, 123) for knob in knobs}, present, actuator.journal, {}))
"""


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_around_the_write_is_restored_at_the_next_start(machine: Machine, when: str) -> None:
    jobs = [machine.execute("sleep", "1000"), machine.execute("sleep", "1000", tier="free")]
    async with machine.agent() as service:
        pods = await machine.pod(service, 2)
        files = [Path(service.driver.knob(CPU_LIMIT, pod.uid).path) for pod in pods]
    before = [file.read_text() for file in files]
    line = [sys.executable, "-c", CRASHING, str(machine.state_dir), machine.instance, when]
    crashed = await asyncio.to_thread(
        subprocess.run, [*line, *(pod.uid for pod in pods)], env=machine.environment, cwd=REPOSITORY, check=False
    )
    assert crashed.returncode == -signal.SIGKILL
    assert (machine.state_dir / "agent/journal").stat().st_size > 0
    assert ([file.read_text() for file in files] == before) is (when == "before")
    async with machine.agent() as service:
        assert [file.read_text() for file in files] == before
        assert service.recovery_report is not None
        assert service.recovery_report.exact
        assert len(service.recovery_report.files) == 2
    for job in jobs:
        job.terminate()
        await until(lambda job=job: job.poll() is not None)


async def test_an_agent_process_killed_while_it_throttles_is_put_right_by_the_next(
    machine: Machine, bus: NatsBus, nats_url: str
) -> None:
    job = machine.execute("sleep", "1000")
    line = [sys.executable, "-m", "slackwater.cli", "agent", "--nats", nats_url, "--node", NODE]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([*line, "--state-dir", str(machine.state_dir)], env=machine.environment, cwd=REPOSITORY)

    first = start()
    machine.commands.append(first)
    registered = machine.state_dir / "agent/pods"
    await until(lambda: registered.is_dir() and list(registered.glob("*.json")))
    uid = next(registered.glob("*.json")).stem
    service = machine.service()
    limit = await until(lambda: (path := Path(service.driver.knob(CPU_LIMIT, uid).path)).exists() and path)
    original = limit.read_text()
    throttle = CpuThrottle(pod_uid=uid, cpu_limit_milli=250, decision_id="d1")
    intent = IntentDeclared(
        node=NODE,
        writer="ensurance",
        generation=1,
        declared_at=datetime.now(UTC),
        lease_seconds=60,
        throttles=(throttle,),
    )
    epochs: set[str] = set()

    async def observed(event: Event[IntentObserved]) -> None:
        epochs.add(event.data.boot_epoch)

    async with bus.watch(IntentObserved, observed, key=NODE):
        await bus.publish(event_of(intent, source="test", time=datetime.now(UTC)))
        await until(lambda: limit.read_text() != original)
        throttled = limit.read_text()
        await until(lambda: len(epochs) == 1)  # the first has said so: what the second says is told apart by its epoch
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert limit.read_text() == throttled, "a dead agent leaves its limit: only the journal knows the way back"
        second = start()
        machine.commands.append(second)
        await until(lambda: len(epochs) == 2)  # the second restored, read the intent again and converged
    assert limit.read_text() == throttled
    second.terminate()
    await until(lambda: second.poll() is not None)
    assert second.returncode == 0
    assert limit.read_text() == original
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_a_killed_tree_leaves_cgroups_that_the_next_start_removes(machine: Machine) -> None:
    job = machine.execute("sh", "-c", "setsid sleep 1000 & sleep 1000")
    async with machine.agent() as service:
        await machine.pod(service)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    assert machine.directories() != []
    async with machine.agent() as service:
        assert service.driver.pods() == ()
    assert machine.directories() == []
