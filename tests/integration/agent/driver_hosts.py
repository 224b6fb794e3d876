"""Machines behind the Driver port, for the suite that all drivers pass: simulated, the world's twin, this machine."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
from agent_machine import Machine as Here
from agent_machine import until
from tests.world.machine.driver import MachineDriver
from tests.world.machine.load import Load
from tests.world.machine.machine import Hardware, Machine

from slackwater.agent.adapters.linux.driver import linux_driver
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.ports import Driver
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.model.time import SystemClock
from slackwater.testing.clock import FakeClock

MIB = 1 << 20
HELD_BYTES = 48 * MIB
PLAIN = "import time; print('up', flush=True); time.sleep(1000)"
HOLD = f"held = bytearray(b'x') * {HELD_BYTES}; import time; print('held', flush=True); time.sleep(1000)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"


class Host(Protocol):
    """A machine with a driver that is open."""

    @property
    def driver(self) -> Driver: ...

    async def start(self, tier: Tier) -> str:
        """Start a pod that ends with SIGTERM; returns its uid."""
        ...

    async def start_deaf(self) -> str:
        """Start a batch pod that ignores SIGTERM."""
        ...

    async def start_holding(self) -> str:
        """Start a batch pod that holds HELD_BYTES."""
        ...

    async def pass_time(self) -> None:
        """Some seconds, or their equivalent."""
        ...

    def write_foreign(self, path: str, text: str) -> None:
        """Write a file as another program."""
        ...


@dataclass
class Simulated:
    driver: SimulatedDriver
    clock: FakeClock

    async def start(self, tier: Tier) -> str:
        return next(pod.uid for pod in self.driver.pods() if pod.tier is tier)

    async def start_deaf(self) -> str:
        pytest.skip("every pod of a simulated machine ends with SIGTERM")

    async def start_holding(self) -> str:
        pytest.skip("a simulated machine refuses no memory limit")

    async def pass_time(self) -> None:
        await self.clock.advance(2)

    def write_foreign(self, path: str, text: str) -> None:
        pytest.skip("the knobs of a simulated machine are not files")


@dataclass
class Twin:
    driver: MachineDriver
    clock: FakeClock
    started: int = 0

    async def start(self, tier: Tier) -> str:
        return self._start(tier, Load(1, 500))

    async def start_deaf(self) -> str:
        return self._start(Tier.BATCH, Load(1, 0, ignores_term=True))

    async def start_holding(self) -> str:
        return self._start(Tier.BATCH, Load(1, 0, anonymous_bytes=HELD_BYTES))

    async def pass_time(self) -> None:
        await self.clock.advance(2)

    def write_foreign(self, path: str, text: str) -> None:
        assert self.driver.machine.write_foreign(path, text)

    def _start(self, tier: Tier, load: Load) -> str:
        self.started += 1
        uid, request = f"pod-{self.started}", Resources(500, 256 * MIB)
        qos, priority = default_qos(tier), DEFAULT_PRIORITY[tier]
        pod = Pod(uid, uid, "default", "job", tier, qos, priority, request, self.clock.now())
        self.driver.machine.start(pod, load)
        return uid


@dataclass
class Real:
    driver: Driver
    here: Here
    jobs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    async def start(self, tier: Tier) -> str:
        return await self._started(tier, PLAIN)

    async def start_deaf(self) -> str:
        return await self._started(Tier.BATCH, DEAF)

    async def start_holding(self) -> str:
        return await self._started(Tier.BATCH, HOLD)

    async def pass_time(self) -> None:
        await asyncio.sleep(0.3)

    def write_foreign(self, path: str, text: str) -> None:
        Path(path).write_text(text)

    async def _started(self, tier: Tier, program: str) -> str:
        """Wait for the program's first line: from then on it is what it is meant to be."""
        uid = await self._start(tier, sys.executable, "-c", program, piped=True)
        out = self.jobs[uid].stdout
        assert out is not None
        await asyncio.get_running_loop().run_in_executor(None, out.readline)
        return uid

    async def _start(self, tier: Tier, *command: str, piped: bool = False) -> str:
        known = {pod.uid for pod in self.driver.pods()}
        job = self.here.execute(*command, tier=tier.value, flags=("--memory", "256Mi"), piped=piped)

        def new() -> str:
            fresh = [pod.uid for pod in self.driver.pods() if pod.uid not in known]
            return fresh[0] if fresh and self.driver.alive(fresh[0]) else ""

        uid = await until(new)
        self.jobs[uid] = job
        return uid


@asynccontextmanager
async def simulated() -> AsyncIterator[Host]:
    clock = FakeClock()
    driver = SimulatedDriver("sim", 1, clock, started_at=clock.now())
    driver.open()
    yield Simulated(driver, clock)


@asynccontextmanager
async def twin(*, pure_v2: bool) -> AsyncIterator[Host]:
    clock = FakeClock()
    driver = MachineDriver(Machine("twin", clock.monotonic, clock, Hardware(pure_v2=pure_v2)))
    driver.open()
    yield Twin(driver, clock)


@asynccontextmanager
async def real(here: Here) -> AsyncIterator[Host]:
    host = Real(linux_driver(here.state_dir, here.instance, SystemClock(), here.hierarchy), here)
    host.driver.open()
    yield host
    for uid, job in host.jobs.items():
        host.driver.terminate(uid, signal.SIGKILL)
        job.wait()
        if job.stdout is not None:
            job.stdout.close()
    host.driver.close()


async def ended(host: Host, uid: str) -> None:
    """Wait until no process of the pod runs."""
    if isinstance(host, Real):
        await until(lambda: not host.driver.alive(uid))
    else:
        await host.pass_time()
        assert not host.driver.alive(uid)
