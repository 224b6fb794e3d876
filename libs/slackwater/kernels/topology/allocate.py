"""Chooses CPUs for a container: packed into as few sockets, NUMA nodes, caches and cores as possible, or spread over
cores. Facts: qos-resource-manager, section 4; `distribute` spreads over NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from slackwater.kernels.topology.free_cpus import FreeCpus, check_enough
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel


def allocate_packed(
    machine: CpuMachine, free: Set[int], count: int, *, spread: bool = False, align_caches: bool = False
) -> frozenset[int]:
    """Returns `count` of the free CPUs. `spread`: over cores before over their threads; `align_caches`: within as few
    last level caches as possible, where they have room for the rest exactly. Raises Conflict for too many.
    """
    cpus = FreeCpus(machine, free)
    check_enough(count, cpus.free)
    wide = [(UnitLevel.NUMA, cpus.whole_numa_nodes), (UnitLevel.SOCKET, cpus.whole_sockets)]
    for level, whole in wide if machine.sockets_within_numa else reversed(wide):
        _whole_units(cpus, level, whole, count)
    if align_caches:
        _caches(cpus, count)
    if not spread:
        _whole_units(cpus, UnitLevel.CORE, cpus.whole_cores, count)
    return finish(cpus, count, spread=spread)


def finish(cpus: FreeCpus, count: int, *, spread: bool) -> frozenset[int]:
    """Fill up with single threads; returns what is allocated."""
    threads = list(cpus.threads_by_socket() if spread else cpus.threads())
    cpus.allocate(threads[: count - len(cpus.allocated)])
    return frozenset(cpus.allocated)


def _whole_units(cpus: FreeCpus, level: UnitLevel, whole: Callable[[], list[int]], count: int) -> None:
    """Allocate whole units while they fit."""
    for unit in whole():
        members = cpus.in_unit(level, unit)
        if len(members) <= count - len(cpus.allocated):
            cpus.allocate(members)


def _caches(cpus: FreeCpus, count: int) -> None:
    """Whole caches while as many CPUs as one has are needed, then a part of one that holds the rest exactly."""
    for cache in cpus.caches():
        if count - len(cpus.allocated) >= cpus.machine.nominal_size(UnitLevel.CACHE):
            _whole_units(cpus, UnitLevel.CACHE, cpus.whole_caches, count)
        left = count - len(cpus.allocated)
        if left <= 0:
            return
        part = _part_of_cache(cpus, cache, left)
        if len(part) == left:
            cpus.allocate(part)
            return


def _part_of_cache(cpus: FreeCpus, cache: int, count: int) -> list[int]:
    """Free CPUs of the lowest cores of a cache, as many cores as `count` needs; of the last core not the last thread
    if that is one too many.
    """
    threads = cpus.machine.nominal_size(UnitLevel.CORE)
    free = cpus.in_unit(UnitLevel.CACHE, cache)
    cores = sorted({cpus.machine.by_id[cpu].core for cpu in free})[: -(-count // threads)]
    part = sorted(cpu for cpu in free if cpus.machine.by_id[cpu].core in cores)
    return part[:-1] if count % 2 and threads > 1 and len(part) > count else part
