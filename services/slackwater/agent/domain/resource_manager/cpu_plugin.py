"""The CPU plugin: holders of CPUs from requests, their hints, and cpusets from the plan of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil

from slackwater.agent.domain.resource_manager.messages import (
    PREFIX,
    RECONCILED,
    AllocatableResource,
    Allocated,
    Allocation,
    ContainerType,
    PluginOptions,
    QosLevel,
    ResourceRequest,
)
from slackwater.agent.domain.resource_manager.plugin import (
    CPU_ENHANCEMENT,
    MEMORY_ENHANCEMENT,
    enhancements,
    is_bound,
    is_trivial,
    nothing_bound,
    request_hints,
)
from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.hints import Hint, mask_of, nodes_of
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel
from slackwater.kernels.topology.numa_hints import SLACK, NodeAmounts, NumaRequest, numa_hints
from slackwater.kernels.topology.plan import free_cpus, pool_of
from slackwater.kernels.topology.plan_replay import PlanBasis
from slackwater.kernels.topology.pool_sizes import cpus_needed
from slackwater.kernels.topology.pools import (
    RECLAIMED_POOL,
    SHARED_POOL,
    CpuPlan,
    HolderKind,
    HolderSpec,
    PoolDecision,
    PoolDemand,
    PoolInForce,
)
from slackwater.model.errors import Conflict, InvalidInput

CPU = "cpu"
WISHES = (MEMORY_ENHANCEMENT, CPU_ENHANCEMENT)
_KINDS = {
    QosLevel.DEDICATED: HolderKind.DEDICATED,
    QosLevel.SHARED: HolderKind.SHARED,
    QosLevel.RECLAIMED: HolderKind.RECLAIMED,
    QosLevel.SYSTEM: HolderKind.SYSTEM,
}
_PACK_BELOW = 0.5
"""With `dynamic_packing`, nodes whose CPUs are requested to a smaller part are packed first."""
Key = tuple[str, str]


class NumaPreference(StrEnum):
    """Which NUMA node a bound shared container prefers."""

    SPREADING = "spreading"
    PACKING = "packing"
    DYNAMIC_PACKING = "dynamic_packing"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class CpuPluginRules:
    """`apart`: pairs of roles that are never on one NUMA node. `refuses_overcommitted`: shared containers that ask for
    more together than their pool could have are refused. `keys`: the names of the wishes for NUMA nodes."""

    apart: frozenset[frozenset[str]] = frozenset()
    preference: NumaPreference = NumaPreference.SPREADING
    refuses_overcommitted: bool = True
    defaults: Mapping[str, str] = field(default_factory=dict)
    count_key: str = f"{PREFIX}numa_number"
    nodes_key: str = f"{PREFIX}numa_ids"


@dataclass(slots=True)
class CpuPlugin:
    """See ResourcePlugin. `now` and `demand` are set by its owner before it is asked; it reads no clock."""

    machine: CpuMachine
    demand: PoolDemand = field(default_factory=PoolDemand)
    rules: CpuPluginRules = field(default_factory=CpuPluginRules)
    headroom: Mapping[int, float] = field(default_factory=dict)
    """Cores by NUMA node that are lent there."""
    now: float = 0.0
    holders: dict[Key, HolderSpec] = field(default_factory=dict)
    roles: dict[Key, str] = field(default_factory=dict)
    decisions: Sequence[PoolDecision] = ()
    """The sizes of the pools in force, and why."""
    planned: CpuPlan | None = None
    """The plan in force, of `basis`."""
    resource: str = CPU
    options: PluginOptions = RECONCILED
    _requests: dict[Key, ResourceRequest] = field(default_factory=dict)
    _sidecars: dict[Key, Key] = field(default_factory=dict)
    """The main container by sidecar."""
    _before: Mapping[str, PoolInForce] | None = None
    """The pools that every plan of a turn begins with; None: those of the plan before."""

    def begin(self, now: float) -> None:
        """Begin a turn: its last plan counts, and all of them begin with the pools that are in force now."""
        self.now, self._before = now, self.demand.in_force

    @property
    def basis(self) -> PlanBasis:
        """Returns what a plan is made from now, or was in this turn."""
        before = self.demand.in_force if self._before is None else self._before
        return PlanBasis(self.machine, list(self.holders.values()), replace(self.demand, in_force=before), self.now)

    def hints(self, request: ResourceRequest) -> Sequence[Hint] | None:
        if is_trivial(request) or request.type is ContainerType.SIDECAR:
            return None
        wishes = self._wishes(request)
        match request.level:
            case QosLevel.DEDICATED if is_bound(wishes):
                return self._dedicated_hints(request, wishes)
            case QosLevel.SHARED if is_bound(wishes):
                return self._shared_hints(request)
            case QosLevel.SHARED:
                self._check_pool(request)
            case QosLevel.RECLAIMED if is_bound(wishes):
                nodes = sorted(self.machine.numa_nodes, key=lambda node: (-self.headroom.get(node, 0.0), node))
                return [Hint(1 << node, self.headroom.get(node, 0.0) >= request.amount) for node in nodes]
        return None

    def allocate(self, request: ResourceRequest) -> Allocated:
        if is_trivial(request):
            return nothing_bound(self.resource, request)
        key = request.pod_uid, request.container
        if request.type is ContainerType.SIDECAR:
            main = next((other for other in self.holders if other[0] == request.pod_uid and other != key), None)
            if main is None:
                return {}
            self._sidecars[key], self._requests[key] = main, request
            return self.allocations().get(key, {})
        spec = self._spec(request)
        planned = replace(self.basis, holders=[*self._others(key), spec]).plan()
        if spec.key in planned.refused:
            raise Conflict(planned.refused[spec.key], code="cpus_exhausted", field="cpus")
        cpus = planned.assignments[spec.key]
        self._put(request, replace(spec, cpus=cpus) if spec.kind is HolderKind.DEDICATED else spec)
        self._apply(planned)
        return {self.resource: self._allocation(request, cpus)}

    def allocations(self) -> Mapping[Key, Allocated]:
        planned = self.plan()
        self._apply(planned)
        of_holder = {key: planned.assignments.get(spec.key) for key, spec in self.holders.items()}
        of_sidecar = {key: of_holder.get(main) for key, main in self._sidecars.items()}
        return {
            key: {self.resource: self._allocation(self._requests[key], cpus)}
            for key, cpus in (of_holder | of_sidecar).items()
            if cpus and key in self._requests
        }

    def plan(self) -> CpuPlan:
        """Returns the plan of all holders now; nothing changes by it."""
        return self.basis.plan()

    def adopt(self, request: ResourceRequest, allocation: Allocation) -> None:
        """Dedicated containers keep their CPUs; those of the others are their pool's."""
        if is_trivial(request):
            return
        key = request.pod_uid, request.container
        cpus = parse_cpu_list(allocation.result) & self.machine.ids
        request = replace(request, hint=next((hint for hint in allocation.hints if hint is not None), None))
        if request.type is ContainerType.SIDECAR:
            main = next((other for other in self.holders if other[0] == request.pod_uid), None)
            if main is not None:
                self._sidecars[key], self._requests[key] = main, request
            return
        spec = self._spec(request)
        ramped = replace(spec, admitted_at=self.now - self.demand.rules.ramp_seconds)
        self._put(request, replace(ramped, cpus=cpus) if spec.kind is HolderKind.DEDICATED else ramped)
        if spec.kind is HolderKind.SHARED and cpus:
            in_force = {pool_of(spec): PoolInForce(cpus, self.now), **self.demand.in_force}
            self.demand = replace(self.demand, in_force=in_force)
            self._before = None if self._before is None else in_force

    def remove(self, uid: str) -> None:
        for table in (self.holders, self.roles, self._requests, self._sidecars):
            for key in [key for key in table if key[0] == uid]:
                del table[key]

    def allocatable(self) -> Mapping[str, AllocatableResource]:
        usable = self.machine.ids - self.demand.reserved - self.demand.forbidden
        units = self.machine.units(UnitLevel.NUMA)
        by_node = {node: float(len(units[node] & usable)) for node in self.machine.numa_nodes}
        total = float(len(self.machine.ids))
        return {self.resource: AllocatableResource(float(len(usable)), total, is_node=False, by_node=by_node)}

    def _wishes(self, request: ResourceRequest) -> dict[str, str]:
        return enhancements(request, WISHES, self.rules.defaults)

    def _spec(self, request: ResourceRequest) -> HolderSpec:
        """Raises InvalidInput for a bound container whose hint does not fit its level."""
        wishes, level = self._wishes(request), request.level
        hint, bound = request.hint, is_bound(wishes)
        nodes = frozenset(nodes_of(hint.mask)) if bound and hint is not None and hint.mask else frozenset[int]()
        if level is QosLevel.SHARED and bound and len(nodes) != 1:
            raise InvalidInput("hint: a bound shared container is on one NUMA node", field="hint")
        return HolderSpec(
            f"{request.pod_uid}/{request.container}",
            _KINDS[level],
            ceil(request.amount * 1000 - SLACK),
            pool=pool_name(level, wishes.get("cpuset_pool", "")),
            admitted_at=self.now,
            nodes=nodes if level is not QosLevel.SYSTEM else frozenset(),
            whole_nodes=wishes.get("numa_exclusive") == "true" and bool(nodes),
            evenly=wishes.get("distribute_evenly_across_numa") == "true" and bool(nodes),
            whole_cores=wishes.get("full_pcpus_pairing") == "true",
        )

    def _others(self, key: Key) -> list[HolderSpec]:
        return [spec for other, spec in self.holders.items() if other != key]

    def _put(self, request: ResourceRequest, spec: HolderSpec) -> None:
        key = request.pod_uid, request.container
        self.holders[key], self.roles[key], self._requests[key] = spec, request.role, request

    def _apply(self, planned: CpuPlan) -> None:
        in_force: Mapping[str, PoolInForce] = planned.in_force(self.basis.demand.in_force, self.now)
        self.demand = replace(self.demand, in_force=in_force)
        self.decisions, self.planned = planned.decisions, planned

    def _allocation(self, request: ResourceRequest, cpus: frozenset[int]) -> Allocation:
        return Allocation("CpusetCpus", float(len(cpus)), cpu_list_text(cpus), hints=request_hints(request))

    def _check_pool(self, request: ResourceRequest) -> None:
        """Raises Conflict where shared containers would ask for more than there is."""
        shared = [spec for spec in self._others((request.pod_uid, request.container)) if self._is_pooled(spec)]
        needed = sum(cpus_needed([spec.cpu_milli / 1000]) for spec in shared) + cpus_needed([request.amount])
        pooled = len(free_cpus(self.machine, self.holders.values(), self.demand))
        if self.rules.refuses_overcommitted and needed > pooled:
            raise Conflict(
                f"cpus: shared containers would ask for {needed} of {pooled} CPUs", code="cpus_exhausted", field="cpus"
            )

    def _is_pooled(self, spec: HolderSpec) -> bool:
        return spec.kind is HolderKind.SHARED and not spec.nodes

    def _dedicated_hints(self, request: ResourceRequest, wishes: Mapping[str, str]) -> Sequence[Hint]:
        key = request.pod_uid, request.container
        free = free_cpus(self.machine, self._others(key), self.demand)
        held = frozenset(cpu for spec in self._others(key) for cpu in self._cpus_of(spec))
        cores = self.machine.units(UnitLevel.CORE)
        apart = self._apart_nodes(request)
        nodes = []
        for node, cpus in sorted(self.machine.units(UnitLevel.NUMA).items()):
            if node not in apart:
                whole = sum(core <= free for core in cores.values() if core <= cpus)
                socket = self.machine.by_id[min(cpus)].socket
                busy = bool(cpus & held)
                nodes.append(NodeAmounts(node, socket, len(cpus), len(cpus & free), whole, busy=busy))
        count = wishes.get(self.rules.count_key)
        threads = self.machine.nominal_size(UnitLevel.CORE)
        sockets = self.machine.nominal_size(UnitLevel.SOCKET)
        return numa_hints(
            nodes,
            NumaRequest(
                amount=request.amount,
                exclusive=wishes.get("numa_exclusive") == "true",
                evenly=wishes.get("distribute_evenly_across_numa") == "true",
                whole_cores=threads if wishes.get("full_pcpus_pairing") == "true" else None,
                node_count=None if count is None else _number(count, self.rules.count_key),
                nodes=parse_cpu_list(wishes.get(self.rules.nodes_key, "")),
                socket_cpus=sockets if wishes.get("align_by_socket") == "true" else None,
            ),
        )

    def _cpus_of(self, spec: HolderSpec) -> frozenset[int]:
        """What a holder is bound to: dedicated CPUs, or the node of its pool."""
        if spec.kind is HolderKind.DEDICATED:
            return spec.cpus
        units = self.machine.units(UnitLevel.NUMA)
        return frozenset(cpu for node in spec.nodes for cpu in units.get(node, ())) - self.demand.reserved

    def _apart_nodes(self, request: ResourceRequest) -> frozenset[int]:
        """The NUMA nodes with a container of a role that is kept apart from this one's."""
        held = (
            self._cpus_of(spec)
            for key, spec in self.holders.items()
            if frozenset((self.roles.get(key, ""), request.role)) in self.rules.apart
        )
        return frozenset(self.machine.by_id[cpu].numa for cpus in held for cpu in cpus if cpu in self.machine.ids)

    def _shared_hints(self, request: ResourceRequest) -> Sequence[Hint]:
        """The nodes with room, one at a time, that leave the pools without binding what they ask for."""
        others = self._others((request.pod_uid, request.container))
        units = self.machine.units(UnitLevel.NUMA)
        usable = self.machine.ids - self.demand.reserved - self.demand.forbidden
        dedicated = frozenset(cpu for spec in others if spec.kind is HolderKind.DEDICATED for cpu in spec.cpus)
        requested = dict.fromkeys(units, 0.0)
        for spec in others:
            for node in spec.nodes if spec.kind is HolderKind.SHARED else ():
                requested[node] = requested.get(node, 0.0) + spec.cpu_milli / 1000
        pooled = sum(spec.cpu_milli / 1000 for spec in others if self._is_pooled(spec))
        open_nodes = {
            node for node, cpus in units.items() if not cpus & dedicated and node not in self._apart_nodes(request)
        }
        loose = {node: len(units[node] & usable) for node in open_nodes if not requested[node]}
        left: dict[int, float] = {}
        for node in sorted(open_nodes):
            room = len(units[node] & usable) - requested[node]
            outside = sum(size for other, size in loose.items() if other != node)
            if room + SLACK >= request.amount and outside + SLACK >= pooled:
                left[node] = room
        if not left:
            raise Conflict(
                f"numa: no NUMA node has {request.amount:g} CPUs for a bound container",
                code="numa_exhausted",
                field="numa",
            )
        preferred = self._preferred(left, {node: len(units[node] & usable) for node in left})
        return [Hint(mask_of([node]), node in preferred) for node in left]

    def _preferred(self, left: Mapping[int, float], sizes: Mapping[int, int]) -> set[int]:
        preference, among = self.rules.preference, set(left)
        if preference is NumaPreference.NONE:
            return among
        if preference is NumaPreference.DYNAMIC_PACKING:
            emptier = {node for node in left if 1 - left[node] / max(1, sizes[node]) < _PACK_BELOW}
            preference = NumaPreference.PACKING if emptier else NumaPreference.SPREADING
            among = emptier or among
        best = min if preference is NumaPreference.PACKING else max
        bound = best(left[node] for node in among)
        return {node for node in among if abs(left[node] - bound) <= SLACK}


def pool_name(level: QosLevel, named: str = "") -> str:
    """Returns the pool of a container: the one that it names where its level may, else that of its level."""
    match level:
        case QosLevel.SHARED:
            return named or SHARED_POOL
        case QosLevel.SYSTEM:
            return named
        case QosLevel.RECLAIMED:
            return RECLAIMED_POOL
    return "dedicated"


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise InvalidInput(f"{name}: {text[:40]!r} is no number of NUMA nodes", field=name)
    return int(text)
