"""The CPUs of a machine by thread, core, cache, NUMA node and socket, and the distances of its NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from slackwater.model.errors import InvalidInput


class UnitLevel(StrEnum):
    """What CPUs share, from the narrowest to the widest. A NUMA node may hold several sockets, or a socket several."""

    CORE = "core"
    CACHE = "cache"
    NUMA = "numa"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class Cpu:
    """One hardware thread. Ids of cores and caches are unique in the machine, not only in their socket."""

    id: int
    core: int
    cache: int
    numa: int
    socket: int

    def at(self, level: UnitLevel) -> int:
        """Returns the id of the unit that it belongs to."""
        return int(getattr(self, level.value))


@dataclass(frozen=True)
class CpuMachine:
    """Every online CPU. `distances[a][b]` is that from NUMA node a to b as the firmware says, empty if unknown.

    `memory_nodes` are NUMA nodes without CPUs. Raises InvalidInput for a CPU that is there twice.
    """

    cpus: tuple[Cpu, ...]
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    memory_nodes: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if len(self.by_id) != len(self.cpus):
            raise InvalidInput("cpus: an id is there twice", field="cpus")

    @cached_property
    def by_id(self) -> Mapping[int, Cpu]:
        return {cpu.id: cpu for cpu in self.cpus}

    @cached_property
    def ids(self) -> frozenset[int]:
        return frozenset(self.by_id)

    @cached_property
    def _units(self) -> Mapping[UnitLevel, Mapping[int, frozenset[int]]]:
        return {level: _grouped(self.cpus, level) for level in UnitLevel}

    def units(self, level: UnitLevel) -> Mapping[int, frozenset[int]]:
        """Returns the CPUs of every unit of a level, by its id."""
        return self._units[level]

    def nominal_size(self, level: UnitLevel) -> int:
        """Returns the number of CPUs of a unit if all had the same, at least 1: offline CPUs make units smaller."""
        return max(1, len(self.cpus) // max(1, len(self.units(level))))

    @property
    def sockets_within_numa(self) -> bool:
        """Whether NUMA nodes are as wide as sockets or wider."""
        return len(self.units(UnitLevel.SOCKET)) >= len(self.units(UnitLevel.NUMA))

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Returns the ids of nodes with CPUs, ascending."""
        return tuple(sorted(self.units(UnitLevel.NUMA)))

    def distance_sum(self, nodes: Sequence[int]) -> int:
        """Returns the sum of the distances of all ordered pairs, a node with itself included."""
        return sum(self.distances[node][other] for node in nodes for other in nodes)

    def without(self, cpus: Iterable[int]) -> CpuMachine:
        """Returns the machine without these CPUs, as if they were offline."""
        gone = frozenset(cpus)
        left = tuple(cpu for cpu in self.cpus if cpu.id not in gone)
        return CpuMachine(left, self.distances, self.memory_nodes)


def _grouped(cpus: Iterable[Cpu], level: UnitLevel) -> Mapping[int, frozenset[int]]:
    units: dict[int, set[int]] = {}
    for cpu in cpus:
        units.setdefault(cpu.at(level), set()).add(cpu.id)
    return {unit: frozenset(members) for unit, members in units.items()}
