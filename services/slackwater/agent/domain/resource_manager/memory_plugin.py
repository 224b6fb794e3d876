"""The memory plugin: on which NUMA nodes a container has its memory, in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from slackwater.kernels.topology.cpu_list import cpu_list_text
from slackwater.kernels.topology.hints import Hint, nodes_of
from slackwater.kernels.topology.numa_hints import NodeAmounts, NumaRequest, numa_hints
from slackwater.model.errors import Conflict, InvalidInput

MEMORY = "memory"
NODE_OF_RECLAIMED = f"qrm.{PREFIX}numa_bind_result"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """A NUMA node with memory, in bytes. `reserved` is the system's."""

    node: int
    socket: int
    total: int
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    request: ResourceRequest
    by_node: Mapping[int, float] = field(default_factory=dict)
    """What it is bound to; empty: the container is anywhere that is left."""
    whole: bool = False


@dataclass(slots=True)
class MemoryPlugin:
    """See ResourcePlugin."""

    nodes: Sequence[MemoryNode]
    defaults: Mapping[str, str] = field(default_factory=dict)
    headroom: Mapping[int, float] = field(default_factory=dict)
    """Bytes by NUMA node that are lent there."""
    apart: frozenset[frozenset[str]] = frozenset()
    resource: str = MEMORY
    options: PluginOptions = RECONCILED
    _held: dict[Key, _Held] = field(default_factory=dict)

    def hints(self, request: ResourceRequest) -> Sequence[Hint] | None:
        wishes = self._wishes(request)
        if is_trivial(request) or request.type is ContainerType.SIDECAR or not is_bound(wishes):
            return None
        match request.level:
            case QosLevel.RECLAIMED:
                nodes = sorted(self.nodes, key=lambda node: (-self.headroom.get(node.node, 0.0), node.node))
                return [Hint(1 << node.node, self.headroom.get(node.node, 0.0) >= request.amount) for node in nodes]
            case QosLevel.SYSTEM:
                return None
        count = wishes.get(f"{PREFIX}numa_number")
        numa_request = NumaRequest(
            amount=request.amount,
            exclusive=wishes.get("numa_exclusive") == "true" and request.level is QosLevel.DEDICATED,
            node_count=int(count) if count is not None and count.isdecimal() else None,
        )
        return numa_hints(self._amounts(request), numa_request)

    def allocate(self, request: ResourceRequest) -> Allocated:
        if is_trivial(request):
            return nothing_bound(self.resource, request)
        key = request.pod_uid, request.container
        if request.type is ContainerType.SIDECAR:
            self._held[key] = _Held(request)
        else:
            self._held[key] = self._hold(request)
        return {self.resource: self._allocation(self._held[key], self._everywhere())}

    def allocations(self) -> Mapping[Key, Allocated]:
        everywhere = self._everywhere()
        return {key: {self.resource: self._allocation(held, everywhere)} for key, held in self._held.items()}

    def adopt(self, request: ResourceRequest, allocation: Allocation) -> None:
        if is_trivial(request):
            return
        hint = next((hint for hint in allocation.hints if hint is not None), None)
        request = replace(request, hint=hint)
        held = _Held(request)
        if request.type is not ContainerType.SIDECAR and hint is not None and hint.mask and self._is_bound(request):
            nodes = nodes_of(hint.mask)
            whole = self._wishes(request).get("numa_exclusive") == "true"
            held = _Held(request, {node: allocation.quantity / len(nodes) for node in nodes}, whole)
        self._held[request.pod_uid, request.container] = held

    def remove(self, uid: str) -> None:
        for key in [key for key in self._held if key[0] == uid]:
            del self._held[key]

    def allocatable(self) -> Mapping[str, AllocatableResource]:
        by_node = {node.node: float(node.total - node.reserved) for node in self.nodes}
        total = float(sum(node.total for node in self.nodes))
        return {self.resource: AllocatableResource(sum(by_node.values()), total, is_node=False, by_node=by_node)}

    def _wishes(self, request: ResourceRequest) -> dict[str, str]:
        return enhancements(request, (MEMORY_ENHANCEMENT, CPU_ENHANCEMENT), self.defaults)

    def _is_bound(self, request: ResourceRequest) -> bool:
        return is_bound(self._wishes(request)) and request.level is not QosLevel.SYSTEM

    def _everywhere(self) -> frozenset[int]:
        """The nodes of containers without binding: all, if others are bound to each of them."""
        nodes = frozenset(node.node for node in self.nodes)
        return nodes - self._bound() or nodes

    def _free(self, key: Key) -> dict[int, float]:
        """What is free of each node without what this container has."""
        free = {node.node: float(node.total - node.reserved) for node in self.nodes}
        for other, held in self._held.items():
            for node, amount in held.by_node.items() if other != key else ():
                free[node] = free.get(node, 0.0) - amount
        return free

    def _amounts(self, request: ResourceRequest) -> list[NodeAmounts]:
        key = request.pod_uid, request.container
        busy = {node for other, held in self._held.items() if other != key for node in held.by_node}
        apart = {
            node
            for other, held in self._held.items()
            if other != key and frozenset((held.request.role, request.role)) in self.apart
            for node in held.by_node
        }
        free = self._free(key)
        return [
            NodeAmounts(node.node, node.socket, node.total, free[node.node], busy=node.node in busy)
            for node in self.nodes
            if node.node not in apart
        ]

    def _hold(self, request: ResourceRequest) -> _Held:
        """Raises Conflict for more than the nodes of the hint have, InvalidInput for a hint that does not fit."""
        if not self._is_bound(request) or request.hint is None or not request.hint.mask:
            if request.level is QosLevel.SHARED and self._is_bound(request):
                raise InvalidInput("hint: a bound shared container is on one NUMA node", field="hint")
            return _Held(request)
        chosen = set(nodes_of(request.hint.mask))
        nodes = [node for node in self.nodes if node.node in chosen]
        if request.level is not QosLevel.DEDICATED and len(nodes) != 1:
            raise InvalidInput("hint: only dedicated containers are on several NUMA nodes", field="hint")
        key = request.pod_uid, request.container
        left = self._free(key)
        free = {node.node: left[node.node] for node in nodes}
        if request.level is not QosLevel.RECLAIMED and sum(free.values()) < request.amount:
            raise Conflict(
                f"memory: {request.amount:g} bytes are asked for and the nodes {cpu_list_text(chosen)} have "
                f"{sum(free.values()):g}",
                code="memory_exhausted",
                field="memory",
            )
        whole = self._wishes(request).get("numa_exclusive") == "true" and request.level is QosLevel.DEDICATED
        if whole:
            return _Held(request, free, whole=True)
        parts: dict[int, float] = {}
        rest = request.amount
        for node, amount in free.items():
            parts[node] = min(rest, amount) if node != max(free) else rest
            rest -= parts[node]
        return _Held(request, parts)

    def _bound(self) -> frozenset[int]:
        """The nodes that containers without binding avoid. Reclaimed ones leave room for others."""
        levels = (QosLevel.DEDICATED, QosLevel.SHARED)
        return frozenset(node for held in self._held.values() if held.request.level in levels for node in held.by_node)

    def _allocation(self, held: _Held, everywhere: frozenset[int]) -> Allocation:
        request = held.request
        if request.type is ContainerType.SIDECAR:
            main = next((other for (uid, _), other in self._held.items() if self._is_main(uid, other, request)), held)
            nodes = frozenset(main.by_node) or everywhere
            return Allocation("CpusetMems", 0.0, cpu_list_text(nodes), hints=request_hints(request))
        nodes = frozenset(held.by_node)
        quantity = sum(held.by_node.values()) if held.whole else request.amount
        marks = {NODE_OF_RECLAIMED: cpu_list_text(nodes)} if nodes and request.level is QosLevel.RECLAIMED else {}
        text = cpu_list_text(nodes or everywhere)
        return Allocation("CpusetMems", quantity, text, annotations=marks, hints=request_hints(request))

    @staticmethod
    def _is_main(uid: str, held: _Held, sidecar: ResourceRequest) -> bool:
        return uid == sidecar.pod_uid and held.request.type is ContainerType.MAIN
