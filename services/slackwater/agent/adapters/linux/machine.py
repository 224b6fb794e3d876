"""What the machine is: CPUs, topology, memory, kernel, as /proc and /sys tell."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.runtime.version import version


def cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format: `0-3,8` -> 0 1 2 3 8."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first:
            found.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(found)


def online_cpus(sys: Path = Path("/sys")) -> tuple[int, ...]:
    """Logical CPUs that run now; what Python counts where /sys is hidden."""
    try:
        return cpu_list((sys / "devices/system/cpu/online").read_text())
    except OSError:
        return tuple(range(os.cpu_count() or 1))


def topology(sys: Path = Path("/sys")) -> CpuTopology:
    """Cores and sockets by their ids; a machine that hides its topology counts one core per CPU, one socket."""
    cpus = online_cpus(sys)
    places = [sys / f"devices/system/cpu/cpu{cpu}/topology" for cpu in cpus]
    packages = [_text(place / "physical_package_id", "0") for place in places]
    cores = [_text(place / "core_id", str(cpu)) for place, cpu in zip(places, cpus, strict=True)]
    numa = _count((sys / "devices/system/node").glob("node[0-9]*"))
    pairs = set(zip(packages, cores, strict=True))
    return CpuTopology(cpus=len(cpus), cores=len(pairs), sockets=len(set(packages)), numa_nodes=max(1, numa))


def memory_total_bytes(proc: Path = Path("/proc")) -> int:
    """MemTotal; 0 where /proc/meminfo is hidden."""
    for line in _text(proc / "meminfo", "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def machine_facts(cgroup_version: str, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> NodeFacts:
    """The node as the machine itself would describe it: named by its host name, in pool `default`."""
    shape = topology(sys)
    return NodeFacts(
        name=platform.node() or "localhost",
        pool="default",
        capacity=Resources(shape.cpus * 1000, memory_total_bytes(proc)),
        reserved=Resources(),
        topology=shape,
        kernel=platform.release(),
        cgroup_version=cgroup_version,
        driver="linux",
        agent_version=version(),
    )


def _text(file: Path, otherwise: str) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return otherwise


def _count(items: Iterable[object]) -> int:
    return sum(1 for _ in items)
