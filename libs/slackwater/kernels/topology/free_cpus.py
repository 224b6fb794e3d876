"""The free CPUs of a machine while some are allocated: which units are whole, and in which order they are taken.

Everywhere fewer free CPUs go first, then the lower id. Facts: qos-resource-manager, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from operator import itemgetter

from slackwater.kernels.topology.machine import CpuMachine, UnitLevel
from slackwater.model.errors import Conflict


class FreeCpus:
    """What is free, and what was allocated of it. `allocated` grows by `allocate`."""

    def __init__(self, machine: CpuMachine, free: Set[int]) -> None:
        self.machine = machine
        self.free = set(free & machine.ids)
        self.allocated: set[int] = set()

    def allocate(self, cpus: Iterable[int]) -> None:
        chosen = set(cpus)
        self.free -= chosen
        self.allocated |= chosen

    def in_unit(self, level: UnitLevel, unit: int) -> set[int]:
        """Returns the free CPUs of a unit."""
        return self.free & self.machine.units(level)[unit]

    def in_nodes(self, nodes: Iterable[int]) -> set[int]:
        """Returns the free CPUs of NUMA nodes."""
        return {cpu for node in nodes for cpu in self.in_unit(UnitLevel.NUMA, node)}

    def sockets(self) -> list[int]:
        """Returns the sockets with free CPUs in order. Where NUMA nodes are wider, by node."""
        if not self.machine.sockets_within_numa:
            return self._ordered(UnitLevel.SOCKET, self.free)
        return self._nested(UnitLevel.SOCKET, (self.in_unit(UnitLevel.NUMA, node) for node in self.numa_nodes()))

    def numa_nodes(self) -> list[int]:
        """Returns the NUMA nodes with free CPUs in order. Where sockets are wider, by socket."""
        if self.machine.sockets_within_numa:
            return self._ordered(UnitLevel.NUMA, self.free)
        return self._nested(UnitLevel.NUMA, (self.in_unit(UnitLevel.SOCKET, socket) for socket in self.sockets()))

    def cores(self) -> list[int]:
        """Returns the cores with free CPUs in order, by the narrower of socket and NUMA node."""
        if self.machine.sockets_within_numa:
            return self._nested(UnitLevel.CORE, (self.in_unit(UnitLevel.SOCKET, socket) for socket in self.sockets()))
        return self._nested(UnitLevel.CORE, (self.in_unit(UnitLevel.NUMA, node) for node in self.numa_nodes()))

    def caches(self) -> list[int]:
        """Returns the last level caches with free CPUs in order, by NUMA node."""
        return self._nested(UnitLevel.CACHE, (self.in_unit(UnitLevel.NUMA, node) for node in self.numa_nodes()))

    def whole_sockets(self) -> list[int]:
        return [socket for socket in self.sockets() if self._is_nominal(UnitLevel.SOCKET, socket)]

    def whole_numa_nodes(self) -> list[int]:
        return [node for node in self.numa_nodes() if self._is_whole(UnitLevel.NUMA, node)]

    def whole_cores(self) -> list[int]:
        return [core for core in self.cores() if self._is_nominal(UnitLevel.CORE, core)]

    def whole_caches(self) -> list[int]:
        return [cache for cache in self.caches() if self._is_whole(UnitLevel.CACHE, cache)]

    def threads(self) -> Iterator[int]:
        """Free CPUs core by core."""
        for core in self.cores():
            yield from sorted(self.in_unit(UnitLevel.CORE, core))

    def threads_by_socket(self) -> Iterator[int]:
        """Free CPUs by ascending id within their socket: on other cores before on siblings."""
        for socket in self.sockets():
            yield from sorted(self.in_unit(UnitLevel.SOCKET, socket))

    def _is_whole(self, level: UnitLevel, unit: int) -> bool:
        return self.machine.units(level)[unit] <= self.free

    def _is_nominal(self, level: UnitLevel, unit: int) -> bool:
        return len(self.in_unit(level, unit)) == self.machine.nominal_size(level)

    def _ordered(self, level: UnitLevel, cpus: Set[int]) -> list[int]:
        counts: dict[int, int] = {}
        for cpu in cpus:
            unit = self.machine.by_id[cpu].at(level)
            counts[unit] = counts.get(unit, 0) + 1
        return [unit for unit, _ in sorted(counts.items(), key=itemgetter(1, 0))]

    def _nested(self, level: UnitLevel, parts: Iterable[Set[int]]) -> list[int]:
        return list(dict.fromkeys(unit for part in parts for unit in self._ordered(level, part)))


def check_enough(wanted: int, free: Set[int]) -> None:
    """Raises Conflict for more CPUs than are free."""
    if wanted > len(free):
        raise Conflict(
            f"cpus: {wanted} are asked for and {len(free)} are free; ask for fewer, or free some",
            code="cpus_exhausted",
            field="cpus",
        )
