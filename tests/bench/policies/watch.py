"""CPU of the machine and of batch while a policy is measured, read from the kernel, and batch that stands still."""

from __future__ import annotations

import os
import signal as signals
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.policies.comparison import CpuUse, Lowered, rate

from slackwater.demo.machine.kernel import Kernel

_POLL_SECONDS, _USE_SECONDS = 0.02, 0.1


@dataclass(frozen=True, slots=True)
class ObservedQuotaChange:
    """The CPU limit of a pod observed at `at` (monotonic seconds); None = unlimited."""

    at: float
    pod: str
    limit_milli: int | None


@dataclass(slots=True)
class QuotaWatch:
    """Polls every batch quota 50 times a second in a separate thread and records changes."""

    kernel: Kernel
    originals: Mapping[str, int | None] = field(default_factory=dict)
    changes: list[ObservedQuotaChange] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> QuotaWatch:
        """Start before any throttle, because the first readings are taken as the originals."""
        self.originals = self.kernel.batch_limits()
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
            for pod, limit in self.kernel.batch_limits().items():
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
        return [reading for reading in tuple(self.used) if began - 0.5 <= reading.at <= ended + 0.5]

    def last_second(self) -> float:
        """CPUs used by the machine in the last second."""
        used = self.used[-15:]
        return rate(used, used[-1].at - 1.0, used[-1].at)[0] if used and used[-1].at - used[0].at >= 1.0 else 0.0

    def _poll(self) -> None:
        while not self._stop.wait(_USE_SECONDS):
            busy, stolen = machine_cpu()
            self.used.append(CpuUse(time.monotonic(), busy, self.kernel.read().batch_cpu, stolen))


@contextmanager
def batch_stands_still(kernel: Kernel) -> Iterator[None]:
    """Stop all batch processes during the block and continue them afterwards."""
    _signal_batch(kernel, signals.SIGSTOP)
    try:
        yield
    finally:
        _signal_batch(kernel, signals.SIGCONT)


def _signal_batch(kernel: Kernel, signal: signals.Signals) -> None:
    folder = kernel.hierarchy.directories(kernel.root)[0] / "batch"
    for procs in folder.glob("**/cgroup.procs"):
        pids: list[str] = []
        with suppress(OSError):  # the pod has ended
            pids = procs.read_text().split()
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended
                os.kill(int(pid), signal)


def lowered_of(changes: Sequence[ObservedQuotaChange], originals: Mapping[str, int | None]) -> list[Lowered]:
    """The changes that lowered a quota."""
    limits, lowered = dict(originals), []
    for change in changes:
        before = limits.get(change.pod)
        if change.limit_milli is not None and (before is None or change.limit_milli < before):
            lowered.append(Lowered(change.at, change.pod))
        limits[change.pod] = change.limit_milli
    return lowered


def machine_cpu(proc: Path = Path("/proc")) -> tuple[float, float]:
    """CPU seconds used since boot (man 5 proc), counted as in the agent, and the part of them that was steal."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(word) / os.sysconf("SC_CLK_TCK") for word in (proc / "stat").read_text().splitlines()[0].split()[1:9]
    )
    return user + nice + system + irq + softirq + steal, steal
