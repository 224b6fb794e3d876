"""Chooses CPUs by the policies of a pod and its node: whole cores or spread, exclusive or not, in fuller or emptier
NUMA nodes first, each CPU for one container or for several (facts: koordinator-quota-scheduling, takeCPUs).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from slackwater.kernels.topology.free_cpus import check_enough
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel


class BindPolicy(StrEnum):
    """Whole cores first, or other cores before siblings."""

    FULL_CORES = "FullPCPUs"
    SPREAD = "SpreadByPCPUs"


class Exclusive(StrEnum):
    """What a container does not share with others that are exclusive in the same way."""

    NONE = "None"
    CORE = "PCPULevel"
    NUMA = "NUMANodeLevel"


class NodeOrder(StrEnum):
    """Which NUMA nodes and sockets go first."""

    FULLEST = "MostAllocated"
    EMPTIEST = "LeastAllocated"


@dataclass(frozen=True, slots=True)
class CpuHolder:
    """The CPUs of a container that has some."""

    cpus: frozenset[int]
    exclusive: Exclusive = Exclusive.NONE


@dataclass(frozen=True, slots=True)
class CpuRequest:
    """What a container asks for."""

    count: int
    bind: BindPolicy = BindPolicy.FULL_CORES
    exclusive: Exclusive = Exclusive.NONE


@dataclass(frozen=True)
class Holdings:
    """A machine and those that hold CPUs of it; `sharers` containers may hold one CPU."""

    machine: CpuMachine
    holders: Sequence[CpuHolder] = ()
    order: NodeOrder = NodeOrder.FULLEST
    sharers: int = 1
    reserved: frozenset[int] = field(default_factory=frozenset)
    """CPUs that are never allocated: those of the system, of interrupts, and forbidden ones."""

    @cached_property
    def counts(self) -> Mapping[int, int]:
        """Returns how many hold each CPU."""
        counts = dict.fromkeys(self.machine.ids, 0)
        for holder in self.holders:
            for cpu in holder.cpus & self.machine.ids:
                counts[cpu] += 1
        return counts

    @cached_property
    def free(self) -> frozenset[int]:
        """Returns the CPUs that one more container may hold."""
        return frozenset(cpu for cpu, count in self.counts.items() if count < self.sharers) - self.reserved


def allocate_by_policy(holdings: Holdings, request: CpuRequest) -> frozenset[int]:
    """Returns the CPUs of a container. Raises Conflict for more than are free.

    A NUMA node that holds them all is best, then a socket, then whole sockets and cores, then what is left. Exclusive
    requests avoid what others hold exclusively; where that is not possible they share it.
    """
    check_enough(request.count, holdings.free)
    if request.count <= 0:
        return frozenset()
    choice = _Choice(holdings, request)
    threads = holdings.machine.nominal_size(UnitLevel.CORE)
    if request.bind is BindPolicy.FULL_CORES or threads == 1:
        return choice.of_whole_cores()
    return choice.spread()


class _Choice:
    """One decision: what was chosen so far, and what is free beside it."""

    def __init__(self, holdings: Holdings, request: CpuRequest) -> None:
        self._holdings, self._machine, self._request = holdings, holdings.machine, request
        self._free, self._chosen = set(holdings.free), list[int]()
        same = [holder for holder in holdings.holders if holder.exclusive is request.exclusive is not Exclusive.NONE]
        held = frozenset(cpu for holder in same for cpu in holder.cpus)
        level = UnitLevel.NUMA if request.exclusive is Exclusive.NUMA else UnitLevel.CORE
        units = self._machine.units(level).values()
        self._avoided = frozenset(cpu for unit in units if unit & held for cpu in unit)

    @property
    def _left(self) -> int:
        return self._request.count - len(self._chosen)

    def of_whole_cores(self) -> frozenset[int]:
        """Of one node or socket if its whole free cores suffice, else whole sockets, then core by core."""
        avoided = self._avoided if self._request.exclusive is Exclusive.NUMA else frozenset[int]()
        for level in (UnitLevel.NUMA, UnitLevel.SOCKET):
            if self._request.count > self._machine.nominal_size(level):
                continue
            for without in (avoided, frozenset[int]()):
                for unit in self._units(level):
                    cpus = self._in_order(self._whole_cores(unit - without))
                    if len(cpus) >= self._request.count:
                        return frozenset(cpus[: self._request.count])
        self._whole_sockets()
        threads = self._machine.nominal_size(UnitLevel.CORE)
        sockets = [self._whole_cores(unit) for unit in self._machine.units(UnitLevel.SOCKET).values()]
        for whole in sorted((socket for socket in sockets if socket), key=lambda cpus: (len(cpus), min(cpus))):
            for core in self._cores(self._whole_cores(whole)):
                if self._left >= threads:
                    self._choose(core)
        return self._rest()

    def spread(self) -> frozenset[int]:
        """Of one node or socket if its free CPUs suffice, else of all; what is avoided only where all is too little."""
        for filtered in (True, False):
            parts = [unit for level in (UnitLevel.NUMA, UnitLevel.SOCKET) for unit in self._units(level)]
            for unit in (*parts, self._machine.ids):
                cpus = self._spread(self._filtered(unit & self._free, filtered))
                if len(cpus) >= self._request.count:
                    return frozenset(cpus[: self._request.count])
        return self._rest()

    def _rest(self) -> frozenset[int]:
        """Fill up with single CPUs, of what is not avoided first."""
        for filtered in (True, False):
            self._choose(self._spread(self._filtered(frozenset(self._free), filtered))[: self._left])
        return frozenset(self._chosen)

    def _filtered(self, cpus: Set[int], filtered: bool) -> Set[int]:
        """Without what is avoided; for exclusive cores one CPU of each."""
        if not filtered or self._request.exclusive is Exclusive.NONE:
            return cpus
        allowed = cpus - self._avoided
        if self._request.exclusive is Exclusive.CORE:
            return {core[0] for core in self._cores(allowed)}
        return allowed

    def _choose(self, cpus: Iterable[int]) -> None:
        candidates = list(cpus)
        self._chosen += candidates
        self._free -= set(candidates)

    def _whole_sockets(self) -> None:
        """All free cores of sockets while they fit, of those with the most first."""
        units = self._machine.units(UnitLevel.SOCKET)
        for socket in sorted(units, key=lambda unit: (-len(self._whole_cores(units[unit])), unit)):
            whole = self._whole_cores(units[socket])
            if len(whole) <= self._left:
                self._choose(whole)

    def _whole_cores(self, cpus: Set[int]) -> frozenset[int]:
        """Of these CPUs the ones whose core is free with all threads."""
        cores = self._machine.units(UnitLevel.CORE)
        return frozenset(cpu for cpu in cpus & self._free if cores[self._machine.by_id[cpu].core] <= self._free)

    def _units(self, level: UnitLevel) -> list[frozenset[int]]:
        """NUMA nodes or sockets in the order of the node's strategy; of equal nodes by what is free in their socket."""
        sign = 1 if self._holdings.order is NodeOrder.FULLEST else -1
        sockets = self._machine.units(UnitLevel.SOCKET)

        def rank(item: tuple[int, frozenset[int]]) -> tuple[int, int, int]:
            unit, cpus = item
            socket = sockets[self._machine.by_id[min(cpus)].socket]
            return sign * len(cpus & self._free), sign * len(socket & self._free), unit

        return [cpus for _, cpus in sorted(self._machine.units(level).items(), key=rank)]

    def _cores(self, cpus: Set[int]) -> list[list[int]]:
        """The cores of these CPUs: those with more of them first, then those with fewer holders, then by id."""
        cores = self._by_core(cpus)

        def rank(core: int) -> tuple[int, int, int]:
            held = sum(self._holdings.counts[cpu] for cpu in cores[core]) if self._holdings.sharers > 1 else 0
            return -len(cores[core]), held, core

        return [cores[core] for core in sorted(cores, key=rank)]

    def _in_order(self, cpus: Set[int]) -> list[int]:
        return [cpu for core in self._cores(cpus) for cpu in core]

    def _spread(self, cpus: Set[int]) -> list[int]:
        """One thread of each core in turn, those with fewer holders first, then by id."""
        cores = self._by_core(cpus).values()
        most = max(map(len, cores), default=0)
        return [core[turn] for turn in range(most) for core in cores if turn < len(core)]

    def _by_core(self, cpus: Set[int]) -> dict[int, list[int]]:
        """The CPUs of each core, those with fewer holders first, then by id; cores in the order of their first."""
        cores: dict[int, list[int]] = {}
        for cpu in sorted(cpus, key=lambda cpu: (self._holdings.counts[cpu], cpu)):
            cores.setdefault(self._machine.by_id[cpu].core, []).append(cpu)
        return cores
