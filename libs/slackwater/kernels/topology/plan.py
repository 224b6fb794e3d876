"""Plans which CPUs each container of a machine has: exclusive ones first, then pools by need, reclaimed ones from the
rest (facts: qos-resource-manager, section 3.1).

Pools keep the CPUs that they have; only the difference moves. Where fewer CPUs are left than there are pools, the
shared ones have all in common, and the reclaimed pool overlaps with them: no pool with containers is ever empty,
because an empty cpuset is that of the parent, with the exclusive CPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil

from slackwater.kernels.topology.allocate_by_cache import allocate_best_fit, allocate_cores_in_turn, allocate_in_turn
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel
from slackwater.kernels.topology.pool_sizes import cpus_needed, fit_pools
from slackwater.kernels.topology.pools import (
    RECLAIMED_POOL,
    RESERVED_POOL,
    SHARED_POOL,
    CpuPlan,
    HolderKind,
    HolderSpec,
    PoolDecision,
    PoolDemand,
    PoolLoad,
    ResizeRule,
)
from slackwater.model.errors import Conflict

_Cpus = frozenset[int]


def plan(machine: CpuMachine, holders: Sequence[HolderSpec], demand: PoolDemand, now: float) -> CpuPlan:
    """Returns the CPUs of every holder; one that cannot have what it asks for is refused and has none."""
    state = _Planned(machine, demand, now, machine.ids - demand.reserved - demand.forbidden)
    by_kind: dict[HolderKind, list[HolderSpec]] = defaultdict(list)
    for holder in sorted(holders, key=lambda holder: (not holder.cpus, holder.admitted_at, holder.key)):
        by_kind[holder.kind].append(holder)
    if demand.rules.named_apart:
        named = {holder.pool for holder in by_kind[HolderKind.SHARED] if state.is_apart(holder)}
        state.named = len(named)
        state.held_apart = _Cpus().union(*(demand.in_force[name].cpus for name in named & demand.in_force.keys()))
    for holder in by_kind[HolderKind.DEDICATED]:
        state.dedicate(holder)
    state.share(by_kind[HolderKind.SHARED], lends=bool(by_kind[HolderKind.RECLAIMED]))
    state.reclaim(by_kind[HolderKind.RECLAIMED])
    for holder in by_kind[HolderKind.SYSTEM]:
        state.assignments[holder.key] = state.of_system(holder)
    return CpuPlan(state.assignments, state.pools, state.decisions, state.refused)


def pool_of(holder: HolderSpec) -> str:
    """Returns the pool of a shared container; one that is bound to a NUMA node has a pool of that node."""
    return holder.pool + "".join(f"-NUMA{node}" for node in sorted(holder.nodes))


def free_cpus(machine: CpuMachine, holders: Iterable[HolderSpec], demand: PoolDemand) -> _Cpus:
    """Returns the CPUs that may become dedicated: shared and reclaimed pools give way."""
    held = (holder.cpus for holder in holders if holder.kind is HolderKind.DEDICATED)
    return machine.ids - demand.reserved - demand.forbidden - _Cpus().union(*held)


def allocate_dedicated(machine: CpuMachine, free: Set[int], holder: HolderSpec) -> _Cpus:
    """Returns the CPUs of a container that shares none, of the free ones of its nodes. Raises Conflict for too few."""
    nodes = machine.units(UnitLevel.NUMA)
    inside = {node: free & nodes.get(node, _Cpus()) for node in sorted(holder.nodes or nodes)}
    usable = _Cpus().union(*inside.values())
    if holder.whole_nodes and usable:
        return usable
    count = ceil(holder.cpu_milli / 1000)
    if holder.whole_cores:
        _check_cores(machine, usable, count)
    if not holder.evenly:
        return allocate_best_fit(machine, usable, count, align_caches=True)
    if count % len(inside):
        raise _refusal(f"{count} CPUs cannot be divided among {len(inside)} NUMA nodes")
    parts = [allocate_best_fit(machine, cpus, count // len(inside), align_caches=True) for cpus in inside.values()]
    return _Cpus().union(*parts)


def _check_cores(machine: CpuMachine, usable: Set[int], count: int) -> None:
    whole = sum(core <= usable for core in machine.units(UnitLevel.CORE).values())
    cores = count // machine.nominal_size(UnitLevel.CORE)
    if whole < cores:
        raise _refusal(f"{cores} whole cores are asked for and {whole} are free")


def _refusal(why: str) -> Conflict:
    return Conflict(f"cpus: {why}", code="cpus_exhausted", field="cpus")


@dataclass(slots=True)
class _Planned:
    """What is decided so far. `free` are the CPUs that are neither reserved, dedicated, nor of a shared pool."""

    machine: CpuMachine
    demand: PoolDemand
    now: float
    free: _Cpus
    assignments: dict[str, _Cpus] = field(default_factory=dict)
    pools: dict[str, _Cpus] = field(default_factory=dict)
    decisions: list[PoolDecision] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    named: int = 0
    """The pools that have CPUs for themselves, each of which needs one at least."""
    held_apart: _Cpus = field(default_factory=_Cpus)
    """What those have now."""
    _dedicated: _Cpus = field(default_factory=_Cpus)
    _common: _Cpus = field(default_factory=_Cpus)
    """What is neither reserved nor dedicated."""
    _apart: _Cpus = field(default_factory=_Cpus)
    """What pools by name have for themselves."""

    def dedicate(self, holder: HolderSpec) -> None:
        """What it holds already stays, if it is there and no other has it."""
        cpus = holder.cpus & self.machine.ids
        try:
            if not cpus or cpus & self._dedicated:
                cpus = self._allocate(holder)
                if len(self.free - cpus) < self.demand.rules.floor + self.named:
                    raise _refusal(f"with {len(cpus)} more dedicated ones, shared containers would have none")
        except Conflict as error:
            self.refused[holder.key] = error.message
            return
        self.assignments[holder.key] = cpus
        self._dedicated |= cpus
        self.free -= cpus

    def _allocate(self, holder: HolderSpec) -> _Cpus:
        """CPUs beside those of pools by name where there are enough: such a pool gives way last."""
        beside = self.free - self.held_apart
        if beside != self.free:
            with suppress(Conflict):
                return allocate_dedicated(self.machine, beside, holder)
        return allocate_dedicated(self.machine, self.free, holder)

    def share(self, holders: Sequence[HolderSpec], *, lends: bool) -> None:
        """Pools of NUMA nodes within their nodes, then the others in what those leave."""
        self._common = self.free
        if not self._common:
            self._refuse(holders)
            return
        by_pool: dict[str, list[HolderSpec]] = defaultdict(list)
        for holder in holders:
            by_pool[pool_of(holder)].append(holder)
        lends = lends or self.demand.offered_milli is not None
        floor = self.demand.rules.reclaimed_floor if lends else 0
        by_nodes: dict[_Cpus, dict[str, list[HolderSpec]]] = defaultdict(dict)
        for name in sorted(by_pool):
            by_nodes[by_pool[name][0].nodes][name] = by_pool[name]
        bound = _Cpus()
        for nodes in sorted((nodes for nodes in by_nodes if nodes), key=sorted):
            inside = self._common & _of_nodes(self.machine, nodes)
            self._size(by_nodes[nodes], inside - bound or inside or self._common)
            bound |= _Cpus().union(*(self.pools[name] for name in by_nodes[nodes]))
        unbound = by_nodes.get(_Cpus(), {})
        apart = {name: members for name, members in unbound.items() if self.is_apart(members[0])}
        bound |= self._separate(apart, self._common - bound)
        left = {name: members for name, members in unbound.items() if name not in self.pools}
        self._size(left, self._common - bound or self._common, floor)
        everywhere = self._common - bound or self._common
        for name, members in by_pool.items():
            for holder in members:
                ramps = not holder.nodes and self.now - holder.admitted_at < self.demand.rules.ramp_seconds
                self.assignments[holder.key] = everywhere if ramps else self.pools[name]
        self.free = self._common - _Cpus().union(*self.pools.values())

    def is_apart(self, holder: HolderSpec) -> bool:
        """Returns whether the pool of a shared container has CPUs for itself, although others overlap."""
        rules = self.demand.rules
        return rules.named_apart and not rules.partitioned and holder.pool != SHARED_POOL and not holder.nodes

    def _separate(self, pools: Mapping[str, Sequence[HolderSpec]], usable: _Cpus) -> _Cpus:
        """Give pools by name their CPUs, and return those; none where the others would have no CPU left."""
        room = len(usable) - self.demand.rules.floor
        if not pools or room < len(pools):
            return _Cpus()
        decisions = {name: self._needed(name, members) for name, members in pools.items()}
        sizes = fit_pools({name: decision.stepped for name, decision in decisions.items()}, room, expand=False)
        for name, cpus in self._place(sizes, usable).items():
            self.pools[name] = cpus
            self.decisions.append(replace(decisions[name], size=len(cpus)))
        self._apart = _Cpus().union(*(self.pools[name] for name in pools))
        return self._apart

    def _size(
        self, pools: Mapping[str, Sequence[HolderSpec]], usable: _Cpus, reclaimed_floor: int | None = None
    ) -> None:
        """Give these pools their CPUs of the usable ones, and what is not lent of the rest. Without `reclaimed_floor`
        they are those of a node, of which nothing more is lent than what they do not need.
        """
        if not pools or not usable:
            return
        decisions = {name: self._needed(name, members) for name, members in pools.items()}
        stepped = {name: decision.stepped for name, decision in decisions.items()}
        room = max(len(pools), len(usable) - (reclaimed_floor or 0))
        sizes = fit_pools(stepped, min(room, len(usable)), expand=False)
        offered = ceil((self.demand.offered_milli or 0) / 1000)
        if reclaimed_floor is None:
            offered = 0 if self.demand.offered_milli is None else len(usable)
        left = len(usable) - max(offered, reclaimed_floor or 0)
        if sum(sizes.values()) < left:
            sizes = fit_pools(sizes, left, expand=True)
        overlaps = len(pools) > len(usable) or not self.demand.rules.partitioned
        chosen = dict.fromkeys(pools, usable) if overlaps else self._place(sizes, usable)
        for name, cpus in chosen.items():
            self.pools[name] = cpus
            self.decisions.append(replace(decisions[name], size=len(cpus), overlaps=overlaps))

    def _needed(self, name: str, members: Sequence[HolderSpec]) -> PoolDecision:
        """The size that a pool needs, and the step towards it."""
        rules, load = self.demand.rules, self.demand.loads.get(name, PoolLoad())
        requests = sum(holder.cpu_milli for holder in members)
        factor = rules.bound_factor if members[0].nodes else 1.0
        needed = cpus_needed([requests * factor / 1000])
        if self.demand.offered_milli is not None and load.predicted_milli is not None:
            needed = cpus_needed([load.predicted_milli / 1000])
        needed = max(rules.floor, needed)
        before = self.demand.in_force.get(name)
        size = len(before.cpus & self.machine.ids) if before else 0
        since = self.now - before.changed_at if before else 0.0
        stepped, rule = size, ResizeRule.UNCHANGED
        if not size:
            stepped, rule = needed, ResizeRule.NEW
        elif load.pressure > rules.pressure_bound and needed <= size:
            stepped, rule = size + 1, ResizeRule.UNDER_PRESSURE
        elif needed > size:
            stepped, rule = min(needed, size + rules.grow_most), ResizeRule.GROWN
        elif needed < size and since < rules.shrink_after_seconds:
            stepped, rule = size, ResizeRule.COOLING_DOWN
        elif needed < size:
            stepped, rule = max(needed, size - rules.shrink_most), ResizeRule.SHRUNK
        return PoolDecision(
            name,
            size,
            needed,
            stepped,
            stepped,
            rule,
            requests,
            load.predicted_milli,
            self.demand.offered_milli,
            load.pressure,
        )

    def _place(self, sizes: Mapping[str, int], usable: _Cpus) -> dict[str, _Cpus]:
        """What each pool has stays in it as far as its size goes; then they fill up in the order of their names."""
        chosen: dict[str, _Cpus] = {}
        left = usable
        for name, size in sizes.items():
            before = self.demand.in_force.get(name)
            present = before.cpus & left if before else _Cpus()
            chosen[name] = allocate_cores_in_turn(self.machine, present, min(size, len(present)))
            left -= chosen[name]
        for name, size in sizes.items():
            more = allocate_cores_in_turn(self.machine, left, size - len(chosen[name]))
            chosen[name] |= more
            left -= more
        return chosen

    def reclaim(self, holders: Sequence[HolderSpec]) -> None:
        """The reclaimed pool: what is offered, of what no pool has; its floor of the others where nothing is left."""
        rules, offered = self.demand.rules, self.demand.offered_milli
        if not self._common or not (holders or offered is not None):
            self._refuse(holders)
            return
        open_cpus = self._common - self._apart
        before = self.demand.in_force.get(RECLAIMED_POOL)
        present = before.cpus & open_cpus if before else _Cpus()
        needed = max(rules.reclaimed_floor, ceil((offered or 0) / 1000))
        if not rules.partitioned:
            present = self.free = open_cpus
            needed = len(open_cpus)
        size = min(needed, len(self.free))
        own = allocate_in_turn(self.machine, present & self.free, min(size, len(present & self.free)))
        own |= allocate_in_turn(self.machine, self.free - own, size - len(own))
        lacking = min(max(0, rules.reclaimed_floor - len(own)), len(open_cpus - own))
        shared = allocate_in_turn(self.machine, open_cpus - own, lacking, highest_first=True)
        cpus = own | shared
        requests = sum(holder.cpu_milli for holder in holders)
        sizes = len(before.cpus) if before else 0, needed, size, len(cpus)
        rule = next(rule for step, rule in _steps(sizes[0], len(cpus)) if step)
        self.pools[RECLAIMED_POOL] = cpus
        self.decisions.append(
            PoolDecision(
                RECLAIMED_POOL,
                *sizes,
                rule,
                requests,
                offered_milli=offered,
                overlaps=bool(shared) or not rules.partitioned,
            )
        )
        for holder in holders:
            inside = cpus & _of_nodes(self.machine, holder.nodes) if holder.nodes else cpus
            self.assignments[holder.key] = inside or cpus

    def _refuse(self, holders: Iterable[HolderSpec]) -> None:
        self.refused |= {holder.key: "cpus: every CPU is reserved or dedicated" for holder in holders}

    def of_system(self, holder: HolderSpec) -> _Cpus:
        """The pools that the name of its pool begins, or every CPU that is not dedicated."""
        named = {**self.pools, RESERVED_POOL: self.demand.reserved}
        cpus = _Cpus().union(*(cpus for name, cpus in named.items() if holder.pool and name.startswith(holder.pool)))
        return cpus or self.machine.ids - self._dedicated


def _steps(before: int, after: int) -> Iterator[tuple[bool, ResizeRule]]:
    yield before == 0, ResizeRule.NEW
    yield after > before, ResizeRule.GROWN
    yield after < before, ResizeRule.SHRUNK
    yield True, ResizeRule.UNCHANGED


def _of_nodes(machine: CpuMachine, nodes: Iterable[int]) -> _Cpus:
    units = machine.units(UnitLevel.NUMA)
    return _Cpus().union(*(units.get(node, _Cpus()) for node in nodes))
