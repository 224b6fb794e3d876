"""CPU and memory of process trees, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found.extend(tree(int(child)))
    except OSError:
        pass  # it has ended
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time, including reaped children; 0 for an ended process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def memory_mb(pid: int) -> float:
    """Proportional set size if the kernel provides it (shared pages count once in total), else resident."""
    for file, key in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
                if line.startswith(key):
                    return int(line.split()[1]) / 1024
        except OSError:
            continue
    return 0.0


def descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Reading:
    """One named process tree: CPU seconds so far, memory in MB, open descriptors."""

    cpu_seconds: float
    memory_mb: float
    descriptors: int


def read(parts: dict[str, int]) -> dict[str, Reading]:
    """Readings of each named process with its descendants."""
    found = {}
    for name, pid in parts.items():
        pids = tree(pid)
        found[name] = Reading(sum(map(cpu_seconds, pids)), sum(map(memory_mb, pids)), sum(map(descriptors, pids)))
    return found
