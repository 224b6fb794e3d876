"""Reads a machine from sysfs, whose root is a parameter: sparse ids, offline CPUs, nodes without CPUs or memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slackwater.kernels.topology.cpu_list import parse_cpu_list, parse_distances
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.model.errors import InvalidInput

_NODE = re.compile(r"node(\d+)")
_LAST_LEVEL = ("3", "2")
"""Levels of the cache that is shared outside of a core, the first that a CPU has."""


def read_machine(sys: Path) -> CpuMachine:
    """Returns the online CPUs below `sys` (/sys). Without NUMA in the kernel all CPUs are of node 0; without a shared
    cache those of a NUMA node share one. Raises InvalidInput if no CPU can be read.
    """
    folder = sys / "devices/system/cpu"
    nodes = dict(_nodes(sys / "devices/system/node"))
    of_node = {cpu: node for node, cpus in nodes.items() for cpu in cpus}
    cpus = [
        Cpu(
            id=cpu,
            core=_first(folder / f"cpu{cpu}/topology/thread_siblings_list", cpu),
            cache=_cache(folder / f"cpu{cpu}/cache", cpu, nodes.get(of_node.get(cpu, 0), frozenset({cpu}))),
            numa=of_node.get(cpu, 0),
            socket=int(_text(folder / f"cpu{cpu}/topology/physical_package_id") or 0),
        )
        for cpu in sorted(parse_cpu_list(_text(folder / "online")))
    ]
    if not cpus:
        raise InvalidInput(f"cpus: {folder}/online names no CPU", field="cpus")
    empty = frozenset(node for node, members in nodes.items() if not members)
    return CpuMachine(tuple(cpus), _distances(sys / "devices/system/node", sorted(nodes)), empty)


def _nodes(folder: Path) -> Iterator[tuple[int, frozenset[int]]]:
    for place in sorted(folder.glob("node*")) if folder.is_dir() else ():
        match = _NODE.fullmatch(place.name)
        if match:
            yield int(match[1]), parse_cpu_list(_text(place / "cpulist"))


def _distances(folder: Path, nodes: list[int]) -> Mapping[int, Mapping[int, int]]:
    rows = {node: parse_distances(_text(folder / f"node{node}/distance")) for node in nodes}
    if any(len(row) != len(nodes) for row in rows.values()):
        return {}
    return {node: dict(zip(nodes, row, strict=True)) for node, row in rows.items()}


def _cache(folder: Path, cpu: int, neighbours: frozenset[int]) -> int:
    """The lowest CPU that shares the last level cache."""
    levels = {_text(index / "level").strip(): index for index in folder.glob("index*")} if folder.is_dir() else {}
    last = next((levels[level] for level in _LAST_LEVEL if level in levels), None)
    return min(neighbours, default=cpu) if last is None else _first(last / "shared_cpu_list", cpu)


def _first(file: Path, cpu: int) -> int:
    """The lowest CPU of a list, which names the unit; the CPU itself where there is no list."""
    return min(parse_cpu_list(_text(file)), default=cpu)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
