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
from tests.kubelet.pods import NODE, container, node_pod
from tests.kubelet.stand_in import CgroupMachine, KubeletStandIn, MountedMachine
from tests.support.clock import FakeClock
from tests.world.machine.driver import MachineDriver
from tests.world.machine.load import Load
from tests.world.machine.machine import Hardware, Machine

from slackwater.agent.adapters.kubepods.driver import KubernetesDriver
from slackwater.agent.adapters.kubepods.pod_source import PodSource
from slackwater.agent.adapters.kubepods.tree import KubeletTree
from slackwater.agent.adapters.linux.driver import linux_driver
from slackwater.agent.adapters.linux.knob_files import KernelFiles
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.ports import Driver
from slackwater.apiserver.node_pods import NODE_PODS, parse_node_pod
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.model.time import SystemClock

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

    async def end(self, uid: str) -> None:
        """End a pod; returns when nothing of it is left."""
        ...


@dataclass
class Simulated:
    driver: SimulatedDriver
    clock: FakeClock

    async def start(self, tier: Tier) -> str:
        return next(pod.uid for pod in self.driver.pods() if pod.tier is tier)

    async def start_deaf(self) -> str:
        pytest.skip("only for real processes: every pod of a simulated machine ends with SIGTERM")

    async def start_holding(self) -> str:
        pytest.skip("only for real cgroups: a simulated machine refuses no memory limit")

    async def pass_time(self) -> None:
        await self.clock.advance(2)

    def write_foreign(self, path: str, text: str) -> None:
        pytest.skip("only for real cgroups: the knobs of a simulated machine are not files")

    async def end(self, uid: str) -> None:
        self.driver.terminate(uid, signal.SIGTERM)


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

    async def end(self, uid: str) -> None:
        self.driver.terminate(uid, signal.SIGTERM)
        await self.pass_time()

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

    async def end(self, uid: str) -> None:
        self.driver.terminate(uid, signal.SIGTERM)
        await until(lambda: not self.driver.alive(uid))
        self.jobs[uid].wait()

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


@dataclass
class Kubepods:
    """Pods of a kubelet's stand-in, on the simulated kernel or in real cgroups."""

    driver: KubernetesDriver
    kubelet: KubeletStandIn
    clock: FakeClock | None = None
    jobs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    async def start(self, tier: Tier) -> str:
        document = node_pod(f"pod-{len(self.kubelet.pods)}", container(), labels={"slackwater.io/tier": tier.value})
        self.kubelet.run(document)
        self._tell()
        uid = str(document["metadata"]["uid"])
        if isinstance(self.kubelet.machine, MountedMachine):
            self._work(self.kubelet.machine, uid)
        return uid

    async def start_deaf(self) -> str:
        raise NotImplementedError("this driver ends no pod")

    async def start_holding(self) -> str:
        raise NotImplementedError("the levels of memory are those of the other drivers, and the same files")

    async def pass_time(self) -> None:
        await (asyncio.sleep(0.1) if self.clock is None else self.clock.advance(2))

    def write_foreign(self, path: str, text: str) -> None:
        self.kubelet.machine.write(path, text)

    async def end(self, uid: str) -> None:
        self.stop(uid)
        self._tell()

    def stop(self, uid: str) -> None:
        if uid in self.jobs:
            self.jobs[uid].kill()
            self.jobs[uid].wait()
        self.kubelet.stop(uid)

    def _work(self, machine: MountedMachine, uid: str) -> None:
        """A process in its container."""
        self.jobs[uid] = job = subprocess.Popen(["sleep", "1000"])
        for tree in machine.trees():
            (tree / self.kubelet.containers[uid, "main"] / "cgroup.procs").write_text(str(job.pid))

    def _tell(self) -> None:
        self.driver.source.replace(NODE_PODS, [parse_node_pod(document) for document in self.kubelet.pods.values()])


@asynccontextmanager
async def kubepods(machine: CgroupMachine, kernel: KernelFiles, root: str = "") -> AsyncIterator[Host]:
    """On the simulated kernel in virtual time, else in real cgroups."""
    names, clock = ((root,) if root else ()), None if isinstance(machine, MountedMachine) else FakeClock()
    kubelet = KubeletStandIn(machine, root=names)
    kubelet.start()
    driver = KubernetesDriver(
        PodSource(NODE), KubeletTree(machine.hierarchy, names, kernel), SystemClock() if clock is None else clock
    )
    host = Kubepods(driver, kubelet, clock)
    try:
        driver.open()
        yield host
        driver.close()
    finally:
        for uid in list(kubelet.pods):
            host.stop(uid)
        kubelet.remove()


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
