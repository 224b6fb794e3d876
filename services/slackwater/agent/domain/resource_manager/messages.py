"""What manager and plugins exchange: the messages of `resourceplugin.v1alpha1` (facts: qos-resource-manager, 1.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from slackwater.kernels.topology.hints import Hint, mask_of, nodes_of

PREFIX = "katalyst.kubewharf.io/"
QOS_LEVEL = f"{PREFIX}qos_level"


class ContainerType(IntEnum):
    INIT = 0
    MAIN = 1
    SIDECAR = 2
    EPHEMERAL = 3


class QosLevel(StrEnum):
    """How a pod shares its resources."""

    DEDICATED = "dedicated_cores"
    SHARED = "shared_cores"
    RECLAIMED = "reclaimed_cores"
    SYSTEM = "system_cores"


class Rpc(StrEnum):
    """What a plugin is asked."""

    OPTIONS = "GetResourcePluginOptions"
    HINTS = "GetTopologyHints"
    POD_HINTS = "GetPodTopologyHints"
    ALLOCATE = "Allocate"
    ALLOCATE_FOR_POD = "AllocateForPod"
    ALLOCATIONS = "GetResourcesAllocation"
    AWARE = "GetTopologyAwareResources"
    ALLOCATABLE = "GetTopologyAwareAllocatableResources"
    PRE_START = "PreStartContainer"
    REMOVE = "RemovePod"


TIMEOUT_SECONDS: Mapping[Rpc, float] = {rpc: 30.0 if rpc is Rpc.PRE_START else 10.0 for rpc in Rpc}


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """What a plugin wants to be asked."""

    pre_start_required: bool = False
    with_topology_alignment: bool = False
    need_reconcile: bool = False


NO_OPTIONS = PluginOptions()
ALIGNED = PluginOptions(with_topology_alignment=True)
RECONCILED = PluginOptions(with_topology_alignment=True, need_reconcile=True)


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One container and one resource, in cores, bytes or units. In pod scope the container is empty."""

    pod_uid: str
    resource: str
    amounts: Mapping[str, float]
    pod_namespace: str = ""
    pod_name: str = ""
    container: str = ""
    type: ContainerType = ContainerType.MAIN
    index: int = 0
    role: str = ""
    pod_type: str = ""
    hint: Hint | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    native_qos: str = ""

    @property
    def amount(self) -> float:
        """Returns what is asked for; it may be named otherwise than the plugin names it."""
        return next(iter(self.amounts.values()), 0.0)

    @property
    def level(self) -> QosLevel:
        """Returns the QoS level. Raises ValueError for a word that is none."""
        return QosLevel(self.annotations.get(QOS_LEVEL, QosLevel.SHARED))


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a container has of a resource. `oci` is the property of the runtime that `result` is written to."""

    oci: str
    quantity: float
    result: str
    is_node: bool = False
    is_scalar: bool = True
    envs: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    hints: tuple[Hint | None, ...] = ()

    def holds(self, amount: float) -> bool:
        """Returns whether it is a scalar that is enough for a request, so that the request is served already."""
        return self.is_scalar and math.ceil(self.quantity) >= amount


Allocated = Mapping[str, Allocation]
"""By resource."""


@dataclass(frozen=True, slots=True)
class AllocatableResource:
    """What a plugin has of a resource on this node; `by_node`: the same by NUMA node."""

    allocatable: float
    capacity: float
    is_node: bool = True
    is_scalar: bool = True
    by_node: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldResource:
    """What a container has of a resource, and the part of it on each NUMA node."""

    quantity: float
    by_node: Mapping[int, float] = field(default_factory=dict)
    is_node: bool = False
    is_scalar: bool = True


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A question to the plugin of a resource. `request`: a ResourceRequest; for Rpc.REMOVE the pod's uid; for Rpc.AWARE
    uid and container.
    """

    resource: str
    rpc: Rpc
    request: Any = None


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """The answer of a plugin that refused, did not answer in time, or is gone."""

    reason: str


def allocation_document(allocation: Allocation) -> dict[str, Any]:
    """Returns the message as JSON names it, without what is empty."""
    hints: list[dict[str, Any]] = [hint_document(hint) for hint in allocation.hints]
    document = {
        "oci_property_name": allocation.oci,
        "is_node_resource": allocation.is_node,
        "is_scalar_resource": allocation.is_scalar,
        "allocated_quantity": allocation.quantity,
        "allocation_result": allocation.result,
        "envs": dict(allocation.envs),
        "annotations": dict(allocation.annotations),
        "resource_hints": {"hints": hints} if hints else None,
    }
    return {name: value for name, value in document.items() if value}


def allocation_of(document: Mapping[str, Any]) -> Allocation:
    """Raises ValueError, TypeError, KeyError or AttributeError for what is no such message."""
    hints: Sequence[Any] = (document.get("resource_hints") or {}).get("hints") or ()
    quantity = float(document.get("allocated_quantity", 0))
    if not math.isfinite(quantity):
        raise ValueError("allocated_quantity is not finite")
    return Allocation(
        _text(document.get("oci_property_name", "")),
        quantity,
        _text(document.get("allocation_result", "")),
        bool(document.get("is_node_resource")),
        bool(document.get("is_scalar_resource")),
        {str(key): _text(value) for key, value in (document.get("envs") or {}).items()},
        {str(key): _text(value) for key, value in (document.get("annotations") or {}).items()},
        tuple(_hint(hint) for hint in hints),
    )


def hint_document(hint: Hint | None) -> dict[str, Any]:
    """Returns the message of a hint; an empty one where there is none."""
    if hint is None:
        return {}
    document = {"nodes": list(nodes_of(hint.mask or 0)), "preferred": hint.preferred}
    return {name: value for name, value in document.items() if value}


def _hint(document: Mapping[str, Any] | None) -> Hint | None:
    if not document:
        return None
    nodes = document.get("nodes")
    return Hint(mask_of(int(node) for node in nodes) if nodes else None, bool(document.get("preferred")))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
