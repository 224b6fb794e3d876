"""What the machine is: CPUs, topology, memory, kernel, as /proc and /sys tell."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.model.nodes import CpuTopology, NodeFacts, NumaNode
from slackwater.model.quantities import Resources
from slackwater.runtime.version import version


def online_cpus(sys: Path = Path("/sys")) -> tuple[int, ...]:
    """Logical CPUs that run now; what Python counts where /sys is hidden."""
    try:
        return tuple(sorted(parse_cpu_list((sys / "devices/system/cpu/online").read_text())))
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


def numa_nodes(sys: Path = Path("/sys")) -> tuple[NumaNode, ...]:
    """Those that have CPUs, with all of their CPUs and memory; none where there are not at least two."""
    places = sorted((sys / "devices/system/node").glob("node[0-9]*"), key=lambda place: int(place.name[4:]))
    nodes = []
    for place in places:
        cpus = len(parse_cpu_list(_text(place / "cpulist", "")))
        if cpus:
            nodes.append(NumaNode(place.name, Resources(cpus * 1000, _kilobytes(place / "meminfo", "MemTotal:"))))
    return tuple(nodes) if len(nodes) > 1 else ()


def memory_total_bytes(proc: Path = Path("/proc")) -> int:
    """MemTotal; 0 where /proc/meminfo is hidden."""
    return _kilobytes(proc / "meminfo", "MemTotal:")


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
        numa=numa_nodes(sys),
    )


def _text(file: Path, otherwise: str) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return otherwise


def _kilobytes(file: Path, name: str) -> int:
    """In bytes, of the line that has the name: `MemTotal: 16 kB`, or `Node 0 MemTotal: 16 kB`."""
    for line in _text(file, "").splitlines():
        words = line.split()
        if name in words:
            return int(words[words.index(name) + 1]) * 1024
    return 0


def _count(items: Iterable[object]) -> int:
    return sum(1 for _ in items)
