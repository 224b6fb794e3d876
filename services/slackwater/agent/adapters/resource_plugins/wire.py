"""Messages of `resourceplugin.v1alpha1` to and from those of the manager. What comes from a plugin is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.agent.domain.resource_manager.foreign_answers import (
    MOST_HINTS,
    MOST_RESOURCES,
    ForeignBounds,
    check_count,
    check_nodes,
    checked_allocatable,
    checked_allocated,
    checked_hint,
    checked_quantity,
)
from slackwater.agent.domain.resource_manager.messages import (
    AllocatableResource,
    Allocated,
    Allocation,
    ContainerType,
    HeldResource,
    PluginOptions,
    ResourceRequest,
)
from slackwater.kernels.topology.hints import Hint, nodes_of
from slackwater.model.errors import InvalidInput
from slackwater.v1.plugins import resource_plugin_pb2 as pb

MOST_PODS = 4096
Answer = (
    pb.ResourceHintsResponse
    | pb.ResourceAllocationResponse
    | pb.PodResourceHintsResponse
    | pb.PodResourceAllocationResponse
)


def request_message(request: ResourceRequest) -> pb.ResourceRequest:
    """Returns what a plugin is asked for a container."""
    return pb.ResourceRequest(
        pod_uid=request.pod_uid,
        pod_namespace=request.pod_namespace,
        pod_name=request.pod_name,
        container_name=request.container,
        container_type=pb.ContainerType.Name(request.type),
        container_index=request.index,
        pod_role=request.role,
        pod_type=request.pod_type,
        resource_name=request.resource,
        hint=None if request.hint is None else hint_message(request.hint),
        resource_requests=request.amounts,
        labels=request.labels,
        annotations=request.annotations,
        native_qos_class=request.native_qos,
    )


def pod_request_message(request: ResourceRequest) -> pb.PodResourceRequest:
    """Returns what a plugin is asked for a whole pod."""
    return pb.PodResourceRequest(
        pod_uid=request.pod_uid,
        pod_namespace=request.pod_namespace,
        pod_name=request.pod_name,
        pod_role=request.role,
        pod_type=request.pod_type,
        resource_name=request.resource,
        hint=None if request.hint is None else hint_message(request.hint),
        resource_requests=request.amounts,
        labels=request.labels,
        annotations=request.annotations,
    )


def request_of(message: pb.ResourceRequest | pb.PodResourceRequest, nodes: frozenset[int]) -> ResourceRequest:
    """Returns the request of another manager, on a machine of these NUMA nodes. Raises InvalidInput."""
    bounds = ForeignBounds(nodes)
    for amount in message.resource_requests.values():
        checked_quantity(amount, "resource_requests")
    hint = checked_hint(message.hint.nodes, message.hint.preferred, bounds) if message.HasField("hint") else None
    request = ResourceRequest(
        message.pod_uid,
        message.resource_name,
        dict(message.resource_requests),
        message.pod_namespace,
        message.pod_name,
        role=message.pod_role,
        pod_type=message.pod_type,
        hint=hint,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        **_of_container(message),
    )
    try:
        request.level  # noqa: B018 - the word is checked here, once
    except ValueError as error:
        raise InvalidInput(f"annotations: {error}", field="annotations") from None
    return request


def _of_container(message: pb.ResourceRequest | pb.PodResourceRequest) -> dict[str, Any]:
    if isinstance(message, pb.PodResourceRequest):
        return {}
    try:
        type_ = ContainerType(message.container_type)
    except ValueError:
        raise InvalidInput(f"container_type: {message.container_type} is unknown", field="container_type") from None
    return {
        "container": message.container_name,
        "type": type_,
        "index": message.container_index,
        "native_qos": message.native_qos_class,
    }


def check_answers(request: ResourceRequest, answer: Answer) -> None:
    """Raises InvalidInput for the answer to another request. A plugin may leave these fields empty."""
    repeated = {
        "pod_uid": (request.pod_uid, answer.pod_uid),
        "resource_name": (request.resource, answer.resource_name),
    }
    if isinstance(answer, pb.ResourceHintsResponse | pb.ResourceAllocationResponse):
        repeated["container_name"] = request.container, answer.container_name
    for name, (expected, answered) in repeated.items():
        if answered and answered != expected:
            raise InvalidInput(f"{name}: {answered[:80]!r} is answered for {expected[:80]!r}", field=name)


def hint_message(hint: Hint) -> pb.TopologyHint:
    return pb.TopologyHint(nodes=nodes_of(hint.mask or 0), preferred=hint.preferred)


def hints_message(hints: Sequence[Hint]) -> pb.ListOfTopologyHints:
    return pb.ListOfTopologyHints(hints=[hint_message(hint) for hint in hints])


def hints_of(
    message: pb.ResourceHintsResponse | pb.PodResourceHintsResponse, bounds: ForeignBounds
) -> Mapping[str, Sequence[Hint] | None]:
    """Returns the hints by resource; a resource that is not there has no preference. Raises InvalidInput."""
    check_count(len(message.resource_hints), MOST_RESOURCES, "resource_hints")
    return {name: _hints(listed, bounds) for name, listed in message.resource_hints.items()}


def _hints(listed: pb.ListOfTopologyHints, bounds: ForeignBounds) -> Sequence[Hint]:
    check_count(len(listed.hints), MOST_HINTS, "hints")
    return [checked_hint(hint.nodes, hint.preferred, bounds) for hint in listed.hints]


def allocation_message(allocated: Allocated) -> pb.ResourceAllocation:
    """Returns allocations by resource."""
    return pb.ResourceAllocation(
        resource_allocation={name: _info(allocation) for name, allocation in allocated.items()}
    )


def _info(allocation: Allocation) -> pb.ResourceAllocationInfo:
    hints = [hint_message(hint) for hint in allocation.hints if hint is not None]
    return pb.ResourceAllocationInfo(
        oci_property_name=allocation.oci,
        is_node_resource=allocation.is_node,
        is_scalar_resource=allocation.is_scalar,
        allocated_quantity=allocation.quantity,
        allocation_result=allocation.result,
        envs=allocation.envs,
        annotations=allocation.annotations,
        resource_hints=pb.ListOfTopologyHints(hints=hints) if hints else None,
    )


def allocated_of(own: str, message: pb.ResourceAllocation, bounds: ForeignBounds) -> Allocated:
    """Returns what the plugin of the resource `own` allocated to a container. Raises InvalidInput."""
    allocated = {
        name: Allocation(
            info.oci_property_name,
            info.allocated_quantity,
            info.allocation_result,
            info.is_node_resource,
            info.is_scalar_resource,
            dict(info.envs),
            dict(info.annotations),
            tuple(_hints(info.resource_hints, bounds)),
        )
        for name, info in message.resource_allocation.items()
    }
    return checked_allocated(own, allocated, bounds)


def allocations_message(allocations: Mapping[tuple[str, str], Allocated]) -> pb.GetResourcesAllocationResponse:
    """Returns the allocations of every container, by pod and container."""
    by_pod: dict[str, dict[str, pb.ResourceAllocation]] = {}
    for (uid, container), allocated in allocations.items():
        by_pod.setdefault(uid, {})[container] = allocation_message(allocated)
    return pb.GetResourcesAllocationResponse(
        pod_resources={uid: pb.ContainerResources(container_resources=held) for uid, held in by_pod.items()}
    )


def allocations_of(
    own: str, message: pb.GetResourcesAllocationResponse, bounds: ForeignBounds
) -> Mapping[tuple[str, str], Allocated]:
    """Returns what every container has, by uid and name. Raises InvalidInput."""
    check_count(len(message.pod_resources), MOST_PODS, "pod_resources")
    return {
        (uid, container): allocated_of(own, resources, bounds)
        for uid, containers in message.pod_resources.items()
        for container, resources in containers.container_resources.items()
    }


def held_message(uid: str, container: str, held: Mapping[str, HeldResource]) -> pb.GetTopologyAwareResourcesResponse:
    """Returns what a container has, by NUMA node."""
    resources = {
        name: pb.TopologyAwareResource(
            is_node_resource=resource.is_node,
            is_scalar_resource=resource.is_scalar,
            aggregated_quantity=resource.quantity,
            original_aggregated_quantity=resource.quantity,
            topology_aware_quantity_list=_quantities(resource.by_node),
            original_topology_aware_quantity_list=_quantities(resource.by_node),
        )
        for name, resource in held.items()
    }
    aware = pb.ContainerTopologyAwareResources(container_name=container, allocated_resources=resources)
    return pb.GetTopologyAwareResourcesResponse(pod_uid=uid, container_topology_aware_resources=aware)


def held_of(message: pb.GetTopologyAwareResourcesResponse, bounds: ForeignBounds) -> Mapping[str, HeldResource]:
    """Returns what a container has, by resource. Raises InvalidInput."""
    resources = message.container_topology_aware_resources.allocated_resources
    check_count(len(resources), MOST_RESOURCES, "allocated_resources")
    return {
        name: HeldResource(
            checked_quantity(resource.aggregated_quantity, "aggregated_quantity"),
            _by_node(resource.topology_aware_quantity_list, bounds),
            resource.is_node_resource,
            resource.is_scalar_resource,
        )
        for name, resource in resources.items()
    }


def allocatable_message(
    reports: Mapping[str, AllocatableResource],
) -> pb.GetTopologyAwareAllocatableResourcesResponse:
    """Returns what there is on the node. Capacity by NUMA node is not known apart from what is allocatable there."""
    return pb.GetTopologyAwareAllocatableResourcesResponse(
        allocatable_resources={
            name: pb.AllocatableTopologyAwareResource(
                is_node_resource=report.is_node,
                is_scalar_resource=report.is_scalar,
                aggregated_allocatable_quantity=report.allocatable,
                topology_aware_allocatable_quantity_list=_quantities(report.by_node),
                aggregated_capacity_quantity=report.capacity,
                topology_aware_capacity_quantity_list=_quantities(report.by_node),
            )
            for name, report in reports.items()
        }
    )


def allocatable_of(
    own: str, message: pb.GetTopologyAwareAllocatableResourcesResponse, bounds: ForeignBounds
) -> Mapping[str, AllocatableResource]:
    """Returns what a plugin says that there is on the node. Raises InvalidInput."""
    reports = {
        name: AllocatableResource(
            report.aggregated_allocatable_quantity,
            report.aggregated_capacity_quantity,
            report.is_node_resource,
            report.is_scalar_resource,
            _by_node(report.topology_aware_allocatable_quantity_list, bounds),
        )
        for name, report in message.allocatable_resources.items()
    }
    return checked_allocatable(own, reports, bounds)


def options_message(options: PluginOptions) -> pb.ResourcePluginOptions:
    return pb.ResourcePluginOptions(
        pre_start_required=options.pre_start_required,
        with_topology_alignment=options.with_topology_alignment,
        need_reconcile=options.need_reconcile,
    )


def options_of(message: pb.ResourcePluginOptions) -> PluginOptions:
    return PluginOptions(message.pre_start_required, message.with_topology_alignment, message.need_reconcile)


def _quantities(by_node: Mapping[int, float]) -> list[pb.TopologyAwareQuantity]:
    return [
        pb.TopologyAwareQuantity(resource_value=amount, node=node, topology_level=pb.TopologyLevel.NUMA)
        for node, amount in by_node.items()
    ]


def _by_node(quantities: Sequence[pb.TopologyAwareQuantity], bounds: ForeignBounds) -> Mapping[int, float]:
    """The quantities of NUMA nodes; those of sockets are not ours to read."""
    check_count(len(quantities), MOST_HINTS, "topology_aware_quantity_list")
    by_node: dict[int, float] = {}
    for quantity in quantities:
        if quantity.topology_level == pb.TopologyLevel.NUMA:
            check_nodes([quantity.node], bounds)
            amount = checked_quantity(quantity.resource_value, "resource_value")
            by_node[quantity.node] = by_node.get(quantity.node, 0.0) + amount
    return by_node
