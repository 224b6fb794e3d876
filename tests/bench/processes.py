"""CPU and memory of processes and all below them, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found.extend(tree(int(child)))
    except OSError:
        pass  # it has ended
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time so far, with that of children it has waited for; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def memory_mb(pid: int) -> float:
    """Proportional memory where the kernel tells it (shared pages are counted once over all), else resident."""
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
    """Of one named part: CPU seconds so far, memory in MB, open descriptors."""

    cpu_seconds: float
    memory_mb: float
    descriptors: int


def read(parts: dict[str, int]) -> dict[str, Reading]:
    """Each named process with all below it."""
    found = {}
    for name, pid in parts.items():
        pids = tree(pid)
        found[name] = Reading(sum(map(cpu_seconds, pids)), sum(map(memory_mb, pids)), sum(map(descriptors, pids)))
    return found
