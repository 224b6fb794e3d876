"""Reads pressure, CPU and quotas from the kernel, independently of the product's own measurements."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
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
    pods_folder: Path

    @classmethod
    def of(cls, state_dir: Path) -> Kernel:
        return cls(find_hierarchy(), f"slackwater-{StateDir(state_dir).instance_id()}", state_dir / "agent" / "pods")

    def read(self) -> KernelReading:
        return KernelReading(time.monotonic(), self._waited("prod"), self._cpu("prod"), self._cpu("batch"))

    def batch_limits(self) -> dict[str, int | None]:
        """The CPU limit in milli-cores (None = unlimited) of every live batch pod, by name."""
        return self.limits_of(self.batch_folders())

    def batch_folders(self) -> dict[str, Path]:
        """The file with the CPU limit of each batch pod, by name."""
        return {entry["name"]: self._cpu_folder(f"batch/{entry['uid']}") for entry in self._entries("batch")}

    def batch_yields(self) -> bool:
        """Returns whether the tier of batch runs in the idle class, or weighs next to nothing beside prod."""
        batch, prod = self._cpu_folder("batch"), self._cpu_folder("prod")
        with suppress(FileNotFoundError):
            if (batch / "cpu.idle").read_text().strip() == "1":
                return True
        name = "cpu.weight" if self.hierarchy.pure_v2 else "cpu.shares"
        with suppress(FileNotFoundError):
            return _YIELDING * int((batch / name).read_text()) <= int((prod / name).read_text())
        return False

    def memory_folder(self, tier: str, name: str) -> Path | None:
        """The memory cgroup of a live pod; None if it has none."""
        memory = self.hierarchy.tree("memory")
        uid = next((entry["uid"] for entry in self._entries(tier) if entry["name"] == name), None)
        return None if memory is None or uid is None else memory / self.root / tier / uid

    def limits_of(self, folders: Mapping[str, Path]) -> dict[str, int | None]:
        """The limits as in `batch_limits`, without discovery of pods; ended pods are omitted."""
        limits: dict[str, int | None] = {}
        for name, folder in folders.items():
            try:
                limits[name] = self._limit(folder)
            except OSError:  # the pod has ended
                continue
        return limits

    def remains(self) -> list[str]:
        """The remaining cgroups of this instance and the processes in them."""
        found = []
        for folder in self.hierarchy.directories(self.root):
            if folder.is_dir():
                found.append(f"cgroup {folder}")
                found += [f"process {pid} in {group}" for group, pid in processes_below(folder)]
        return found

    def _entries(self, tier: str) -> list[dict[str, str]]:
        entries = []
        for file in sorted(self.pods_folder.glob("*.json")):
            try:
                entry = json.loads(file.read_text())
            except FileNotFoundError:  # the pod ended meanwhile
                continue
            if entry["tier"] == tier:
                entries.append(entry)
        return entries

    def _cpu_folder(self, below: str) -> Path:
        return (self.hierarchy.cpu or Path("/nonexistent")) / self.root / below

    def _waited(self, tier: str) -> float | None:
        if self.hierarchy.unified is None:
            return None
        try:
            some = (self.hierarchy.unified / self.root / tier / "cpu.pressure").read_text().splitlines()[0]
        except OSError:  # a kernel without pressure accounting
            return None
        return int(some.rpartition("total=")[2]) / 1e6

    def batch_cpu(self) -> float:
        """CPU seconds of all batch pods so far."""
        return self._cpu("batch")

    def _cpu(self, tier: str) -> float:
        if self.hierarchy.pure_v2:
            line = (self._cpu_folder(tier) / "cpu.stat").read_text().splitlines()[0]
            return int(line.split()[1]) / 1e6
        folder = (self.hierarchy.cpuacct or Path("/nonexistent")) / self.root / tier
        return int((folder / "cpuacct.usage").read_text()) / 1e9

    def _limit(self, folder: Path) -> int | None:
        if self.hierarchy.pure_v2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return None if quota in ("max", "-1") else int(quota) * 1000 // int(period)


def processes_below(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every cgroup below a folder, and a process in it."""
    for procs in folder.glob("**/cgroup.procs"):
        with suppress(OSError):  # the pod has ended
            yield from ((procs.parent, int(pid)) for pid in procs.read_text().split())
