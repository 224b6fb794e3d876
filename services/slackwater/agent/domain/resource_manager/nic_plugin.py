"""The NIC plugin: which network interface a container is near to, and the bandwidth that it may count on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.messages import (
    ALIGNED,
    PREFIX,
    AllocatableResource,
    Allocated,
    Allocation,
    ContainerType,
    PluginOptions,
    QosLevel,
    ResourceRequest,
)
from slackwater.agent.domain.resource_manager.plugin import (
    NETWORK_ENHANCEMENT,
    enhancements,
    is_trivial,
    nothing_bound,
    request_hints,
)
from slackwater.kernels.topology.cpu_list import cpu_list_text
from slackwater.kernels.topology.hints import Hint, mask_of
from slackwater.model.errors import Conflict

BANDWIDTH = f"resource.{PREFIX}net_bandwidth"
_NET_CLASS = f"{PREFIX}net_class_id"
_ANSWER = f"qrm.{PREFIX}"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Nic:
    """An interface, near to the NUMA nodes of its socket. `capacity`: Mbps that containers may have, without reserve.
    `namespace`: the path of its network namespace; empty: the host's.
    """

    name: str
    nodes: frozenset[int]
    capacity: float = 0.0
    namespace: str = ""
    ipv4: str = ""
    ipv6: str = ""
    enabled: bool = True


@dataclass(slots=True)
class NicPlugin:
    """See ResourcePlugin. With the resource BANDWIDTH, Mbps of an interface are allocated; with any other name only an
    interface, which containers share."""

    nics: Sequence[Nic]
    nodes: frozenset[int]
    """All NUMA nodes of the machine."""
    resource: str = BANDWIDTH
    net_classes: Mapping[QosLevel, str] = field(default_factory=dict)
    is_restricted: bool = False
    """No hint for all nodes: the container is near to its interface, or refused."""
    options: PluginOptions = ALIGNED
    _held: dict[Key, tuple[ResourceRequest, Nic]] = field(default_factory=dict)

    def hints(self, request: ResourceRequest) -> Sequence[Hint] | None:
        if is_trivial(request) or request.type is ContainerType.SIDECAR:
            return None
        usable = [nic for nic in self.nics if nic.enabled]
        fits = self._fitting(request)
        hints = {mask_of(nic.nodes): self._is_preferred(nic, request) for nic in reversed(fits)}
        everywhere = mask_of(self.nodes)
        if usable and self.resource == BANDWIDTH and not self.is_restricted:
            hints.setdefault(everywhere, False)
        return [Hint(mask, preferred) for mask, preferred in sorted(hints.items())]

    def allocate(self, request: ResourceRequest) -> Allocated:
        if is_trivial(request):
            return nothing_bound(self.resource, request)
        if request.type is ContainerType.SIDECAR:
            return {self.resource: Allocation("", 0.0, "")}
        mask = request.hint.mask if request.hint is not None else None
        fits = self._fitting(request)
        near = [nic for nic in fits if mask is None or mask_of(nic.nodes) == mask]
        near = near or [nic for nic in fits if mask is not None and mask_of(nic.nodes) & mask == mask_of(nic.nodes)]
        if not near:
            raise Conflict(
                f"{self.resource}: no interface has {request.amount:g} where the container is to be",
                code="nic_exhausted",
                field=self.resource,
            )
        nic = min(near, key=lambda nic: (not self._is_preferred(nic, request), nic.name))
        self._held[request.pod_uid, request.container] = request, nic
        return {self.resource: self._allocation(request, nic)}

    def allocations(self) -> Mapping[Key, Allocated]:
        return {key: {self.resource: self._allocation(request, nic)} for key, (request, nic) in self._held.items()}

    def adopt(self, request: ResourceRequest, allocation: Allocation) -> None:
        name = allocation.annotations.get(f"{_ANSWER}nic_name")
        nic = next((nic for nic in self.nics if nic.name == name or allocation.envs.items() & self._envs(nic)), None)
        if nic is not None:
            self._held[request.pod_uid, request.container] = request, nic

    def remove(self, uid: str) -> None:
        for key in [key for key in self._held if key[0] == uid]:
            del self._held[key]

    def allocatable(self) -> Mapping[str, AllocatableResource]:
        total = sum(nic.capacity for nic in self.nics if nic.enabled)
        return {self.resource: AllocatableResource(total, total)} if self.resource == BANDWIDTH else {}

    def _fitting(self, request: ResourceRequest) -> list[Nic]:
        """The interfaces with what is asked for, in a namespace that the container accepts."""
        wish = self._wish(request)
        return [
            nic
            for nic in self.nics
            if nic.enabled
            and (self.resource != BANDWIDTH or self._left(nic, request) >= request.amount)
            and (wish.endswith("_preferred") or not wish or self._matches(nic, wish))
        ]

    def _left(self, nic: Nic, request: ResourceRequest) -> float:
        key = request.pod_uid, request.container
        return nic.capacity - sum(
            held.amount for other, (held, own) in self._held.items() if own.name == nic.name and other != key
        )

    def _wish(self, request: ResourceRequest) -> str:
        return enhancements(request, (NETWORK_ENHANCEMENT,)).get("namespace_type", "")

    def _is_preferred(self, nic: Nic, request: ResourceRequest) -> bool:
        wish = self._wish(request).removesuffix("_preferred")
        return not wish or self._matches(nic, wish)

    @staticmethod
    def _matches(nic: Nic, wish: str) -> bool:
        return (not nic.namespace) == (wish == "host_ns")

    @staticmethod
    def _envs(nic: Nic) -> set[tuple[str, str]]:
        return {("AFFINITY_NIC_ADDR_IPV6", nic.ipv6)} if nic.ipv6 else set()

    def _allocation(self, request: ResourceRequest, nic: Nic) -> Allocation:
        hints = request_hints(request)
        if self.resource != BANDWIDTH:
            marks = {"kubernetes.io/host-netns-path": nic.namespace} if nic.namespace else {}
            envs = dict(self._envs(nic))
            return Allocation("", request.amount, "", is_scalar=False, envs=envs, annotations=marks, hints=hints)
        net_class = request.annotations.get(_NET_CLASS) or self.net_classes.get(request.level, "")
        marks = {
            f"{_ANSWER}inet_addr": nic.ipv4,
            f"{_ANSWER}inet_addr_ipv6": nic.ipv6,
            f"{_ANSWER}nic_name": nic.name,
            f"{_ANSWER}netcls_id": net_class,
            f"{_ANSWER}net_bandwidth": f"{request.amount:g}",
        }
        if nic.namespace:
            marks[f"{_ANSWER}netns_path"] = nic.namespace
        text = cpu_list_text(nic.nodes)
        return Allocation("", request.amount, text, is_node=True, annotations=marks, hints=hints)
