"""Chooses CPUs for dedicated containers: whole sockets, then the last level cache that fits best, cores, threads; and
system CPUs in turn over NUMA nodes. Facts: qos-resource-manager, section 3.1, calculator.
"""

from __future__ import annotations

from collections.abc import Set

from slackwater.kernels.topology.allocate import finish
from slackwater.kernels.topology.free_cpus import FreeCpus, check_enough
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel


def allocate_best_fit(machine: CpuMachine, free: Set[int], count: int, *, align_caches: bool) -> frozenset[int]:
    """Returns `count` of the free CPUs. `align_caches`: the rest beyond whole sockets is from the cache with exactly as
    many free CPUs, else the smallest that holds it, else the largest, and so on. Raises Conflict for too many.
    """
    cpus = FreeCpus(machine, free)
    check_enough(count, cpus.free)
    _whole(cpus, UnitLevel.SOCKET, count)
    within = _best_caches(cpus, count) if align_caches else None
    if within is not None:
        rest = FreeCpus(machine, within)
        cpus.allocate(_cores_then_threads(rest, count - len(cpus.allocated)))
    return frozenset(cpus.allocated) if len(cpus.allocated) == count else _cores_then_threads(cpus, count)


def allocate_in_turn(machine: CpuMachine, free: Set[int], count: int, *, highest_first: bool = False) -> frozenset[int]:
    """Returns `count` of the free CPUs, one thread of each NUMA node in turn, so that none has more system CPUs than
    another. Raises Conflict for too many.
    """
    check_enough(count, free & machine.ids)
    sign = -1 if highest_first else 1
    nodes = [
        sorted(free & machine.units(UnitLevel.NUMA)[node], key=lambda cpu: sign * cpu) for node in machine.numa_nodes
    ]
    nodes = nodes[::sign]
    turns = (node[turn] for turn in range(max(map(len, nodes), default=0)) for node in nodes if turn < len(node))
    return frozenset(cpu for _, cpu in zip(range(count), turns, strict=False))


def allocate_cores_in_turn(machine: CpuMachine, free: Set[int], count: int) -> frozenset[int]:
    """Returns `count` of the free CPUs: whole cores of each NUMA node in turn while they fit, then threads in turn.

    Raises Conflict for too many.
    """
    check_enough(count, free & machine.ids)
    cores = machine.units(UnitLevel.CORE)
    nodes = [sorted(free & cpus) for _, cpus in sorted(machine.units(UnitLevel.NUMA).items())]
    whole = [[core for core in dict.fromkeys(machine.by_id[cpu].core for cpu in cpus) if cores[core] <= free]
             for cpus in nodes]  # fmt: skip
    chosen: set[int] = set()
    for turn in range(max(map(len, whole), default=0)):
        for node in whole:
            if turn < len(node) and len(chosen) + len(cores[node[turn]]) <= count:
                chosen |= cores[node[turn]]
    return frozenset(chosen) | allocate_in_turn(machine, free - chosen, count - len(chosen))


def _whole(cpus: FreeCpus, level: UnitLevel, count: int) -> None:
    """Allocate units of which everything is free while they fit, lower ids first."""
    for unit in sorted(cpus.machine.units(level)):
        members = cpus.machine.units(level)[unit]
        if members <= cpus.free and len(members) <= count - len(cpus.allocated):
            cpus.allocate(members)


def _cores_then_threads(cpus: FreeCpus, count: int) -> frozenset[int]:
    for core in cpus.cores():
        members = cpus.machine.units(UnitLevel.CORE)[core]
        if members <= cpus.free and len(members) <= count - len(cpus.allocated):
            cpus.allocate(members)
    return finish(cpus, count, spread=False)


def _best_caches(cpus: FreeCpus, count: int) -> set[int] | None:
    """Allocate caches until one holds the rest; returns that one's free CPUs, or None if nothing is left."""
    while len(cpus.allocated) < count:
        left = count - len(cpus.allocated)
        sizes = {cache: len(cpus.in_unit(UnitLevel.CACHE, cache)) for cache in cpus.caches()}
        holding = [cache for cache, size in sizes.items() if size >= left]
        if holding:
            best = min(holding, key=lambda cache: (sizes[cache], cache))
            return cpus.in_unit(UnitLevel.CACHE, best)
        largest = min(sizes, key=lambda cache: (-sizes[cache], cache))
        cpus.allocate(cpus.in_unit(UnitLevel.CACHE, largest))
    return None
