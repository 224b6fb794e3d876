"""What a plugin of another process may answer: it can be wrong, old or hostile, and the manager stays right. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.messages import AllocatableResource, Allocated, Allocation
from slackwater.agent.domain.resource_manager.run_options import OCI_PROPERTIES, run_options
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.hints import Hint, mask_of
from slackwater.model.errors import InvalidInput

LARGEST_QUANTITY = float(1 << 53)
"""Beyond it a double no longer holds every whole number."""
MOST_HINTS, MOST_RESOURCES, MOST_VALUES, MOST_CHARACTERS = 4096, 64, 64, 4096


@dataclass(frozen=True, slots=True)
class ForeignBounds:
    """What holds for the answers of every plugin that is not in this process.

    `properties` and `resources` are those of the plugins in this process: CPUs that a service owns are never shared
    because only one plugin writes `CpusetCpus`.
    """

    nodes: frozenset[int]
    resources: frozenset[str] = frozenset()
    properties: frozenset[str] = frozenset()
    cpus: frozenset[int] = frozenset()
    """CPUs that a plugin may name: those of the machine without the reserved ones."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """What there is on the node of a resource, where its plugin has said so."""


def checked_hint(nodes: Sequence[int], preferred: bool, bounds: ForeignBounds) -> Hint:
    """Returns the hint; no nodes: anywhere. Raises InvalidInput for nodes that this machine does not have."""
    outside = [node for node in nodes if node not in bounds.nodes]
    if outside:
        raise InvalidInput(
            f"hints: NUMA node {outside[0]} is not of this machine; it has {sorted(bounds.nodes)}", field="hints"
        )
    return Hint(mask_of(nodes) if nodes else None, preferred)


def check_count(count: int, most: int, what: str) -> None:
    """Raises InvalidInput for an answer with more of something than is read."""
    if count > most:
        raise InvalidInput(f"{what}: {count} are answered; at most {most} are read", field=what)


def checked_quantity(quantity: float, name: str, most: float = LARGEST_QUANTITY) -> float:
    """Raises InvalidInput for what is no amount of anything on this node."""
    if not math.isfinite(quantity) or quantity < 0 or quantity > most:
        raise InvalidInput(f"{name}: {quantity:g} is not allowed; it is between 0 and {most:g}", field=name)
    return quantity


def checked_allocated(own: str, allocated: Allocated, bounds: ForeignBounds) -> Allocated:
    """Returns what the plugin of the resource `own` allocated, with accompanying resources. Raises InvalidInput for
    what it may not allocate."""
    check_count(len(allocated), MOST_RESOURCES, "resource_allocation")
    for resource, allocation in allocated.items():
        if resource in bounds.resources:
            raise InvalidInput(f"{resource}: has a plugin of its own; {own} may not allocate it", field=resource[:80])
        most = bounds.capacity.get(resource, LARGEST_QUANTITY)
        checked_quantity(allocation.quantity, "allocated_quantity", most)
        _check_property(own, allocation, bounds)
        _check_values(allocation)
    run_options(allocated)
    return allocated


def _check_property(own: str, allocation: Allocation, bounds: ForeignBounds) -> None:
    if allocation.oci in bounds.properties:
        raise InvalidInput(
            f"oci_property_name: {allocation.oci} is set by a plugin of the agent; {own} may not set it",
            field="oci_property_name",
        )
    if allocation.oci and allocation.oci not in OCI_PROPERTIES:
        allowed = ", ".join(OCI_PROPERTIES)
        raise InvalidInput(f"oci_property_name: {allocation.oci[:40]!r}; allowed: {allowed}", field="oci_property_name")
    places = {"CpusetCpus": bounds.cpus, "CpusetMems": bounds.nodes}.get(allocation.oci)
    if places is not None:
        text = allocation.result[:MOST_CHARACTERS]
        outside = parse_cpu_list(text) - places
        if outside or not text:
            raise InvalidInput(f"{allocation.oci}: {text[:40]!r} is not among those to allocate", field=allocation.oci)


def _check_values(allocation: Allocation) -> None:
    """Raises InvalidInput for an environment or annotations that a command cannot get."""
    for what, values in (("envs", allocation.envs), ("annotations", allocation.annotations)):
        check_count(len(values), MOST_VALUES, what)
        for name, value in values.items():
            if not name or "=" in name or "\0" in name + value or len(name) + len(value) > MOST_CHARACTERS:
                raise InvalidInput(f"{what}: {name[:40]!r} is no name with a value of text", field=what)
    check_count(len(allocation.result), MOST_CHARACTERS, "allocation_result")
    check_count(len(allocation.hints), MOST_HINTS, "resource_hints")


def checked_allocatable(
    own: str, reports: Mapping[str, AllocatableResource], bounds: ForeignBounds
) -> Mapping[str, AllocatableResource]:
    """Returns what a plugin says that there is. Raises InvalidInput for more allocatable than capacity, and for nodes
    that this machine does not have."""
    check_count(len(reports), MOST_RESOURCES, "allocatable_resources")
    for resource, report in reports.items():
        if resource in bounds.resources:
            raise InvalidInput(f"{resource}: has a plugin of its own; {own} may not report it", field=resource[:80])
        checked_quantity(report.capacity, "aggregated_capacity_quantity")
        checked_quantity(report.allocatable, "aggregated_allocatable_quantity", report.capacity)
        check_nodes(report.by_node, bounds)
    return reports


def check_nodes(nodes: Iterable[int], bounds: ForeignBounds) -> None:
    """Raises InvalidInput for a NUMA node that this machine does not have."""
    for node in nodes:
        checked_hint([node], preferred=False, bounds=bounds)
