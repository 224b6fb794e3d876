"""The example control on this machine's real cgroups: written, given back at the stop and after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from agent_machine import Machine, until
from tests.unit.agent.example_memory_soft import MEMORY_SOFT, MemorySoft

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.domain.controls.catalog import CONTROLS, KNOBS
from slackwater.agent.domain.convergence import plan
from slackwater.agent.node_agent import AgentService
from slackwater.agent.usecases.actuate import Actuator
from slackwater.model.errors import NotFound
from slackwater.model.time import SystemClock

pytestmark = pytest.mark.root
REQUEST = ("--memory", "64Mi")


def with_example(machine: Machine) -> AgentService:
    service = machine.service()
    assert isinstance(service.driver, LinuxDriver)
    service.driver = LinuxDriver(service.driver.layout, SystemClock(), knobs=(*KNOBS, MEMORY_SOFT))
    service.controls = (*CONTROLS, MemorySoft())
    return service


def file_of(service: AgentService, uid: str) -> Path:
    try:
        path = Path(service.driver.knob(MEMORY_SOFT, uid).path)
    except NotFound as error:
        pytest.skip(f"this machine has no memory controller: {error.message}")
    if not path.exists():
        pytest.skip(f"this kernel has no {path.name}: `make cgroup2` runs another one")
    return path


async def test_an_example_control_writes_a_kernel_file_and_gives_it_back(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", flags=REQUEST)
    async with machine.agent(with_example(machine)) as service:
        [pod] = await machine.pod(service)
        file = file_of(service, pod.uid)
        before = file.read_text()
        await machine.declare()
        await until(lambda: file.read_text().strip() == str(64 << 20))
    assert service.restored_exactly
    assert file.read_text() == before
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_an_agent_without_the_control_gives_back_what_a_dead_one_with_it_had_written(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", flags=REQUEST)
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
    one = with_example(machine)
    file = file_of(one, pod.uid)
    before = file.read_text()
    child = os.fork()
    if child == 0:  # as far as the write, then the end of the process
        actuator = Actuator(one.driver, one.journal)
        knob = one.driver.knob(MEMORY_SOFT, pod.uid)
        text = one.driver.render(knob, 64 << 20)
        actuator.perform(plan({knob: text}, {knob: one.driver.read(knob)}, actuator.journal, {}))
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, child, 0)
    assert file.read_text().strip() == str(64 << 20)
    async with machine.agent() as service:
        assert file.read_text() == before
        assert service.recovery_report is not None
        assert service.recovery_report.exact
    job.terminate()
    await until(lambda: job.poll() is not None)
