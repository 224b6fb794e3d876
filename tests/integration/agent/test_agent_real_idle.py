"""Tiers scheduled as idle, on the kernel of this machine: written, taken back, and found again after a crash."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agent_machine import REPOSITORY, Machine, until

from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.weights import IDLE_SHARES
from slackwater.agent.node_agent import AgentService
from slackwater.events.intent_declared import WeightPolicy
from slackwater.model.tiers import Tier

pytestmark = pytest.mark.root


def files_of(service: AgentService, tier: Tier) -> tuple[Path, Path]:
    """Weight and cpu.idle of a tier's group."""
    weight = Path(service.driver.knob(CPU_WEIGHT, tier).path)
    if not weight.with_name("cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle: it takes 5.15, and `make cgroup2` runs such a one")
    return weight, weight.with_name("cpu.idle")


async def test_batch_and_free_are_idle_and_get_everything_back(machine: Machine) -> None:
    job = machine.execute("sleep", "1000")
    async with machine.agent() as service:
        await machine.pod(service)
        places = {tier: files_of(service, tier) for tier in Tier}
        before = {tier: [file.read_text() for file in places[tier]] for tier in Tier}

        def idle() -> set[Tier]:
            return {tier for tier in Tier if places[tier][1].read_text().strip() == "1"}

        await machine.declare(weights=WeightPolicy.BY_TIER_IDLE)
        await until(lambda: idle() == {Tier.BATCH, Tier.FREE})
        assert service.driver.read(service.driver.knob(CPU_WEIGHT, Tier.BATCH)) == "idle"
        await machine.declare(weights=WeightPolicy.BY_TIER)
        await until(lambda: not idle())
        lowest = service.driver.render(service.driver.knob(CPU_WEIGHT, Tier.BATCH), 2)
        await until(lambda: places[Tier.BATCH][0].read_text().strip() == lowest)
        await machine.declare(weights=WeightPolicy.BY_TIER_IDLE)
        await until(lambda: idle() == {Tier.BATCH, Tier.FREE})
    assert [file.read_text() for file in places[Tier.BATCH]] == before[Tier.BATCH], "the stop gives everything back"
    job.terminate()
    await until(lambda: job.poll() is not None)


CRASHING = """
import os, signal, sys
from pathlib import Path
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.linux.driver import linux_driver
from slackwater.agent.domain.convergence import plan
from slackwater.agent.usecases.actuate import Actuator
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock

state_dir, instance, when = sys.argv[1:]
driver = linux_driver(Path(state_dir), instance, SystemClock())
driver.open()
actuator = Actuator(driver, LinesJournal(Path(state_dir) / "agent/journal"))
knob = driver.knob(CPU_WEIGHT, Tier.BATCH)
for text in ("idle", driver.render(knob, 2))[: 2 if when == "weighed" else 1]:
    actuator.perform(plan({knob: text}, {knob: driver.read(knob)}, actuator.journal, {}))
if when == "half way back":
    Path(knob.path).with_name("cpu.idle").write_text("0")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["idle", "weighed", "half way back"])
async def test_after_a_crash_the_next_start_puts_an_idle_tier_right(machine: Machine, when: str) -> None:
    job = machine.execute("sleep", "1000")
    async with machine.agent() as service:
        await machine.pod(service)
        weight, idle = files_of(service, Tier.BATCH)
        assert service.driver.render(service.driver.knob(CPU_WEIGHT, Tier.BATCH), IDLE_SHARES) == "idle"
        before = (weight.read_text(), idle.read_text())
    line = [sys.executable, "-c", CRASHING, str(machine.state_dir), machine.instance, when]
    crashed = await asyncio.to_thread(subprocess.run, line, env=machine.environment, cwd=REPOSITORY, check=False)
    assert crashed.returncode == -signal.SIGKILL
    assert (idle.read_text().strip() == "1") is (when == "idle")
    async with machine.agent() as service:
        assert (weight.read_text(), idle.read_text()) == before
        assert service.recovery_report is not None
        assert service.recovery_report.exact
        assert len(service.recovery_report.files) == 1
    job.terminate()
    await until(lambda: job.poll() is not None)
