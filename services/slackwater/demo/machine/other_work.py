"""CPU that processes other than the demo's use during a turn, from two readings of /proc.

other = machine - demo - kernel threads, where the demo is this process with all of its descendants: the stack, its
servers, the pods and the load generator. CPU of processes that end is kept by the parent that waits for them (man 5
proc: cutime, cstime). Time that the host takes (steal) and interrupts are not processes and are counted apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

MOST_OTHER_CPUS: Final = 0.2
"""CPUs of other processes in a turn above which it is disturbed: its scene compares no measured figure."""
MOST_STEAL: Final = 0.03
"""The same for what the host takes, as a share of the CPUs."""
_KERNEL_THREADS = 2
_BUSY_ENOUGH_CPUS = 0.05
READINGS = 5


class OtherWork(BaseModel):
    """CPUs of other processes and of the host (steal) during a turn; `busiest` names the process that took most."""

    model_config = ConfigDict(frozen=True)

    cpus: float = 0.0
    busiest: str = ""
    stolen_cpus: float = 0.0

    def disturbance(self, cpus: int) -> str:
        """Returns what disturbed a measurement on so many CPUs, in words; empty if nothing did."""
        if self.cpus > MOST_OTHER_CPUS:
            most = f", most of it {self.busiest}" if self.busiest else ""
            return f"other processes used {self.cpus:.1f} of {cpus} CPU{most}"
        if self.stolen_cpus > MOST_STEAL * cpus:
            return f"the host took {self.stolen_cpus:.2f} of {cpus} CPU (steal)"
        return ""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """CPU seconds of one process so far: its own, and those of its children that have ended."""

    name: str
    parent: int
    own: float
    ended_children: float

    @property
    def whole(self) -> float:
        return self.own + self.ended_children


@dataclass(frozen=True, slots=True)
class MachineReading:
    """CPU seconds since boot at one time: in user and system mode, stolen, and by process."""

    at: float
    busy: float
    stolen: float
    processes: Mapping[int, ProcessUse]

    def tree(self, root: int) -> set[int]:
        """Returns the process and its descendants."""
        children: dict[int, list[int]] = {}
        for pid, process in self.processes.items():
            children.setdefault(process.parent, []).append(pid)
        found, left = {root}, [root]
        while left:
            below = children.get(left.pop(), [])
            found.update(below)
            left.extend(below)
        return found

    def seconds(self, pids: Iterable[int]) -> float:
        return sum(self.processes[pid].whole for pid in pids if pid in self.processes)


def other_work(before: MachineReading, after: MachineReading, root: int) -> OtherWork:
    """Returns what neither the process `root` with its descendants nor the kernel's threads used."""
    span = after.at - before.at
    if span <= 0:
        return OtherWork()
    known = [sum(one.seconds(one.tree(pid)) for pid in (root, _KERNEL_THREADS)) for one in (before, after)]
    spent = (after.busy - before.busy) - (known[1] - known[0])
    return OtherWork(
        cpus=round(max(0.0, spent / span), 3),
        busiest=_busiest(before, after, after.tree(root) | after.tree(_KERNEL_THREADS), span),
        stolen_cpus=round(max(0.0, (after.stolen - before.stolen) / span), 3),
    )


def _busiest(before: MachineReading, after: MachineReading, known: set[int], span: float) -> str:
    none = ProcessUse("", 0, 0.0, 0.0)
    used = {
        pid: process.own - before.processes.get(pid, none).own
        for pid, process in after.processes.items()
        if pid not in known
    }
    pid = max(used, key=used.__getitem__, default=0)
    return f"{after.processes[pid].name} (pid {pid})" if used.get(pid, 0.0) >= _BUSY_ENOUGH_CPUS * span else ""


@dataclass(slots=True)
class OtherWorkMeter:
    """`found` is valid after the block."""

    found: OtherWork = field(default_factory=OtherWork)


@contextmanager
def measured() -> Iterator[OtherWorkMeter]:
    """Measures other work during the block: enter it when the measurement of a turn begins."""
    meter, before = OtherWorkMeter(), read_machine()
    try:
        yield meter
    finally:
        meter.found = other_work(before, read_machine(), os.getpid())


def read_machine(proc: Path = Path("/proc")) -> MachineReading:
    """Reads the CPU times of the machine and of every process.

    Reads again, up to READINGS times, if a process ended meanwhile: its parent may have been read before it took over
    the CPU time, which would then count as that of others (1.3 CPU in a turn of the scene cache).
    """
    tick = os.sysconf("SC_CLK_TCK")
    for _ in range(READINGS):
        words = [int(word) for word in (proc / "stat").read_text().splitlines()[0].split()[1:]]
        pids = _pids(proc)
        found = {pid: use for pid in pids if (use := _process(proc / str(pid), tick)) is not None}
        if pids <= found.keys() & _pids(proc):
            break
    return MachineReading(time.monotonic(), sum(words[:3]) / tick, words[7] / tick, found)


def _pids(proc: Path) -> set[int]:
    return {int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()}


def _process(folder: Path, tick: int) -> ProcessUse | None:
    try:
        text = (folder / "stat").read_text()
    except OSError:  # it has ended
        return None
    name, _, rest = text.partition("(")[2].rpartition(") ")
    words = rest.split()
    own, ended = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
    return ProcessUse(name, int(words[1]), own / tick, ended / tick)
