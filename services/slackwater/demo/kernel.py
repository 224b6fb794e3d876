"""Reads pressure, CPU and quotas from the kernel, independently of the product's own measurements."""

from __future__ import annotations

import json
import os
import signal as signals
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.demo.comparison import CpuUse, rate
from slackwater.demo.reaction import ObservedQuotaChange, PressureSample
from slackwater.runtime.state import StateDir

_POLL_SECONDS, _USE_SECONDS = 0.02, 0.1


@dataclass(frozen=True, slots=True)
class KernelReading:
    """Cumulative counters at one time: seconds in which some prod task was stalled, CPU seconds of each tier and of the
    machine; `stolen_cpu` is the part of these that the host stole."""

    at: float
    waited: float | None
    prod_cpu: float
    batch_cpu: float
    machine_cpu: float
    stolen_cpu: float = 0.0


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
        busy, stolen = machine_cpu()
        return KernelReading(
            time.monotonic(), self._waited("prod"), self._cpu("prod"), self._cpu("batch"), busy, stolen
        )

    def batch_limits(self) -> dict[str, int | None]:
        """The CPU limit in milli-cores (None = unlimited) of every live batch pod, by name."""
        return self.limits_of(self.batch_folders())

    def batch_folders(self) -> dict[str, Path]:
        """The file with the CPU limit of each batch pod, by name."""
        return {one["name"]: self._cpu_folder(f"batch/{one['uid']}") for one in self._entries("batch")}

    def memory_folder(self, tier: str, name: str) -> Path | None:
        """The memory cgroup of a live pod; None if it has none."""
        memory = self.hierarchy.tree("memory")
        uid = next((one["uid"] for one in self._entries(tier) if one["name"] == name), None)
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

    @contextmanager
    def batch_stands_still(self) -> Iterator[None]:
        """Stop all batch processes during the block and continue them afterwards."""
        self._signal_batch(signals.SIGSTOP)
        try:
            yield
        finally:
            self._signal_batch(signals.SIGCONT)

    def _signal_batch(self, signal: signals.Signals) -> None:
        for procs in self._cpu_folder("batch").glob("**/cgroup.procs"):
            pids: list[str] = []
            with suppress(OSError):  # the pod has ended
                pids = procs.read_text().split()
            for pid in pids:
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(int(pid), signal)

    def remains(self) -> list[str]:
        """The remaining cgroups of this instance and the processes in them."""
        found = []
        for folder in self.hierarchy.directories(self.root):
            if folder.is_dir():
                found.append(f"cgroup {folder}")
                for procs in folder.glob("**/cgroup.procs"):
                    found.extend(f"process {pid} in {procs.parent}" for pid in procs.read_text().split())
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


@dataclass(slots=True)
class QuotaWatch:
    """Polls every batch quota 50 times a second in a separate thread and records changes."""

    kernel: Kernel
    originals: Mapping[str, int | None] = field(default_factory=dict)
    changes: list[ObservedQuotaChange] = field(default_factory=list)
    _folders: Mapping[str, Path] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> QuotaWatch:
        """Start before any throttle, because the first readings are taken as the originals."""
        self._folders = self.kernel.batch_folders()
        self.originals = self.kernel.limits_of(self._folders)
        self._thread = threading.Thread(target=self._poll, name="quota-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def now(self) -> dict[str, int | None]:
        """The last reading of every quota."""
        return {**self.originals, **{change.pod: change.limit_milli for change in tuple(self.changes)}}

    def all_original(self) -> bool:
        return self.now() == dict(self.originals)

    def _poll(self) -> None:
        known = dict(self.originals)
        while not self._stop.wait(_POLL_SECONDS):
            for pod, limit in self.kernel.limits_of(self._folders).items():
                if pod in known and known[pod] != limit:
                    known[pod] = limit
                    self.changes.append(ObservedQuotaChange(time.monotonic(), pod, limit))


@dataclass(slots=True)
class UseWatch:
    """Reads the CPU usage of the machine and of batch ten times a second in a separate thread."""

    kernel: Kernel
    used: list[CpuUse] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> UseWatch:
        self._thread = threading.Thread(target=self._poll, name="use-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def between(self, began: float, ended: float) -> list[CpuUse]:
        """The readings in a period, with the adjacent one on each side if it exists."""
        return [one for one in tuple(self.used) if began - 0.5 <= one.at <= ended + 0.5]

    def last_second(self) -> float:
        """CPUs used by the machine in the last second."""
        used = self.used[-15:]
        return rate(used, used[-1].at - 1.0, used[-1].at)[0] if used and used[-1].at - used[0].at >= 1.0 else 0.0

    def _poll(self) -> None:
        while not self._stop.wait(_USE_SECONDS):
            busy, stolen = machine_cpu()
            self.used.append(CpuUse(time.monotonic(), busy, self.kernel.batch_cpu(), stolen))


@dataclass(slots=True)
class Gauge:
    """Half-second readings; gives the pressure of the last second and the mean CPU of a period."""

    kernel: Kernel
    readings: list[KernelReading] = field(default_factory=list)

    def tick(self) -> PressureSample | None:
        """Read once and return the pressure of about the last second; None before the second reading."""
        now = self.kernel.read()
        self.readings.append(now)
        before = next((r for r in reversed(self.readings) if now.at - r.at >= 0.95), None)
        return None if before is None else pressure(before, now)

    def pressures(self, began: float, ended: float) -> list[PressureSample]:
        """The one-second pressures within the period, overlapping by half."""
        within = [r for r in self.readings if began - 0.1 <= r.at <= ended + 0.1]
        found = []
        for index, now in enumerate(within):
            before = next((r for r in reversed(within[:index]) if now.at - r.at >= 0.95), None)
            sample = None if before is None else pressure(before, now)
            if sample is not None:
                found.append(sample)
        return found

    def cores(self, began: float, ended: float) -> tuple[float, float, float, float]:
        """Mean cores in the period: used by prod, by batch, by the rest of the machine, and stolen by the host."""
        within = [r for r in self.readings if began - 0.3 <= r.at <= ended + 0.3]
        if len(within) < 2 or within[-1].at <= within[0].at:
            return 0.0, 0.0, 0.0, 0.0
        first, last = within[0], within[-1]
        span = last.at - first.at
        prod, batch = (last.prod_cpu - first.prod_cpu) / span, (last.batch_cpu - first.batch_cpu) / span
        stolen = (last.stolen_cpu - first.stolen_cpu) / span
        other = max(0.0, (last.machine_cpu - first.machine_cpu) / span - prod - batch - stolen)
        return prod, batch, other, stolen


def machine_cpu(proc: Path = Path("/proc")) -> tuple[float, float]:
    """CPU seconds used since boot (man 5 proc), counted as in the agent, and the part of them that was steal."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(word) / os.sysconf("SC_CLK_TCK") for word in (proc / "stat").read_text().splitlines()[0].split()[1:9]
    )
    return user + nice + system + irq + softirq + steal, steal


def pressure(before: KernelReading, now: KernelReading) -> PressureSample | None:
    """The share of the time between two readings in which some prod task was stalled."""
    if before.waited is None or now.waited is None or now.at <= before.at:
        return None
    return PressureSample(before.at, now.at, min(1.0, max(0.0, (now.waited - before.waited) / (now.at - before.at))))
