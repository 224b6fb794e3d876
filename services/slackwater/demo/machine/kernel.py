"""Reads pressure, CPU and quotas from the kernel, independently of the product's own measurements."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.processes import members
from slackwater.agent.adapters.linux.registry import PodRegistry
from slackwater.runtime.state import StateDir

_YIELDING = 10
"""So many times less than prod's, the weight of batch yields to prod where a kernel has no idle class."""


@dataclass(frozen=True, slots=True)
class KernelReading:
    """Cumulative counters at one time: seconds in which some prod task was stalled, and CPU seconds of each tier."""

    at: float
    waited: float | None
    prod_cpu: float
    batch_cpu: float


@dataclass(frozen=True, slots=True)
class Kernel:
    """The cgroups of one instance."""

    hierarchy: Hierarchy
    root: str
    registry: PodRegistry

    @classmethod
    def of(cls, state_dir: Path) -> Kernel:
        root = f"slackwater-{StateDir(state_dir).instance_id()}"
        return cls(find_hierarchy(), root, PodRegistry(state_dir / "agent" / "pods"))

    def read(self) -> KernelReading:
        return KernelReading(time.monotonic(), self._waited("prod"), self._cpu("prod"), self._cpu("batch"))

    def batch_limits(self) -> dict[str, int | None]:
        """The CPU limit in milli-cores (None = unlimited) of every live batch pod, by name."""
        limits: dict[str, int | None] = {}
        for name, uid in self._pods("batch").items():
            with suppress(OSError):  # the pod has ended
                limits[name] = self._limit(self._folder("cpu", f"batch/{uid}"))
        return limits

    def batch_yields(self) -> bool:
        """Returns whether the tier of batch runs in the idle class, or weighs next to nothing beside prod."""
        batch, prod = self._folder("cpu", "batch"), self._folder("cpu", "prod")
        name = "cpu.weight" if self.hierarchy.pure_v2 else "cpu.shares"
        with suppress(FileNotFoundError):
            is_idle = (batch / "cpu.idle").exists() and (batch / "cpu.idle").read_text().strip() == "1"
            return is_idle or _YIELDING * int((batch / name).read_text()) <= int((prod / name).read_text())
        return False

    def memory_folder(self, tier: str, name: str) -> Path | None:
        """The memory cgroup of a live pod; None if it has none."""
        uid = self._pods(tier).get(name)
        return None if uid is None else self._folder("memory", f"{tier}/{uid}")

    def allowed_cpus(self, tier: str, name: str) -> frozenset[int]:
        """The CPUs on which the processes of a live pod may run; empty if it has none."""
        uid, cpus = self._pods(tier).get(name), frozenset[int]()
        for pid in () if uid is None else members(self._folder("cpu", f"{tier}/{uid}")):
            with suppress(OSError):  # the process has ended
                cpus |= os.sched_getaffinity(pid)
        return cpus

    def remains(self) -> list[str]:
        """The remaining cgroups of this instance and the processes in them."""
        found = []
        for folder in self.hierarchy.directories(self.root):
            if folder.is_dir():
                found += [f"cgroup {folder}", *(f"process {pid} in {folder}" for pid in members(folder))]
        return found

    def _pods(self, tier: str) -> dict[str, str]:
        """The uid of each live pod by name."""
        pods = [entry.pod for entry in self.registry.entries().values()]
        return {pod.name: pod.uid for pod in pods if pod.tier.value == tier}

    def _folder(self, controller: str, below: str) -> Path:
        return (self.hierarchy.tree(controller) or Path("/nonexistent")) / self.root / below

    def _waited(self, tier: str) -> float | None:
        unified = self.hierarchy.unified or Path("/nonexistent")
        with suppress(OSError):  # a kernel without pressure accounting
            some = (unified / self.root / tier / "cpu.pressure").read_text().splitlines()[0]
            return int(some.rpartition("total=")[2]) / 1e6
        return None

    def _cpu(self, tier: str) -> float:
        folder = self._folder("cpuacct", tier)
        if self.hierarchy.pure_v2:
            return int((folder / "cpu.stat").read_text().split()[1]) / 1e6
        return int((folder / "cpuacct.usage").read_text()) / 1e9

    def _limit(self, folder: Path) -> int | None:
        if self.hierarchy.pure_v2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return None if quota in ("max", "-1") else int(quota) * 1000 // int(period)
