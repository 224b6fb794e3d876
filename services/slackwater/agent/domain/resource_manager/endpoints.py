"""The plugins of this node by resource: registration, end, and the time in which one may come back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slackwater.agent.domain.resource_manager.messages import NO_OPTIONS, AllocatableResource, PluginOptions
from slackwater.model.errors import Conflict, InvalidInput

API_VERSION = "v1alpha1"
GRACE_SECONDS = 300.0
"""So long the resources of a plugin that ended stay known, with nothing of them to allocate."""
_RESOURCE = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SOCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class PluginEndpoint:
    """The plugin of a resource. `socket` is its file in the directory of plugins; empty: it is in this process."""

    resource: str
    options: PluginOptions
    socket: str = ""
    stopped_at: float | None = None

    @property
    def runs(self) -> bool:
        return self.stopped_at is None


Endpoints = Mapping[str, PluginEndpoint]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a plugin announces."""

    version: str
    socket: str
    resource: str
    options: PluginOptions = NO_OPTIONS


def register(endpoints: Endpoints, registration: Registration) -> Endpoints:
    """Returns the endpoints with this one. Raises InvalidInput for another version or no name, Conflict while another
    plugin has the resource.
    """
    if registration.version != API_VERSION:
        version = registration.version[:40]
        raise InvalidInput(f"version: {version!r} is not supported; allowed: {API_VERSION}", field="version")
    if not _RESOURCE.fullmatch(registration.resource):
        raise InvalidInput(f"resource_name: {registration.resource[:80]!r} is no name", field="resource_name")
    if not _SOCKET.fullmatch(registration.socket):
        raise InvalidInput(
            f"endpoint: {registration.socket[:80]!r} is no name of a file in the directory of plugins", field="endpoint"
        )
    present = endpoints.get(registration.resource)
    if present is not None and present.runs:
        place = present.socket or "this process"
        raise Conflict(
            f"resource_name: {registration.resource} has a plugin that runs, at {place}; end it first",
            code="plugin_registered",
            field="resource_name",
        )
    endpoint = PluginEndpoint(registration.resource, registration.options, registration.socket)
    return {**endpoints, registration.resource: endpoint}


def stop(endpoints: Endpoints, resource: str, now: float) -> Endpoints:
    """Returns the endpoints after this one ended; its grace begins."""
    present = endpoints.get(resource)
    if present is None or not present.runs:
        return endpoints
    return {**endpoints, resource: replace(present, stopped_at=now)}


def expected(endpoints: Endpoints, resources: Iterable[str], now: float) -> Endpoints:
    """Returns the endpoints with a place for the plugin of each resource that a checkpoint names."""
    places = {name: PluginEndpoint(name, NO_OPTIONS, stopped_at=now) for name in resources if name not in endpoints}
    return {**endpoints, **places}


@dataclass(frozen=True, slots=True)
class NodeResources:
    """What the plugins add to the node's status. `removed`: resources whose plugin did not come back."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    removed: tuple[str, ...] = ()


def node_resources(
    endpoints: Endpoints, reports: Mapping[str, Mapping[str, AllocatableResource]], now: float
) -> NodeResources:
    """Returns the resources of the node by what each running plugin reports; one within its grace has none left."""
    capacity: dict[str, float] = {}
    allocatable: dict[str, float] = {}
    removed: list[str] = []
    for resource, endpoint in sorted(endpoints.items()):
        if endpoint.stopped_at is None:
            for name, report in reports.get(resource, {}).items():
                if report.is_node and report.is_scalar:
                    capacity[name], allocatable[name] = report.capacity, report.allocatable
        elif "/" not in resource:
            continue  # a resource of the kubelet itself, like cpu, stays the kubelet's
        elif now - endpoint.stopped_at < GRACE_SECONDS:
            capacity[resource] = allocatable[resource] = 0.0
        else:
            removed.append(resource)
    return NodeResources(_texts(capacity), _texts(allocatable), tuple(removed))


def without_ended(endpoints: Endpoints, now: float) -> Endpoints:
    """Returns the endpoints without those whose grace is over."""
    return {
        name: endpoint
        for name, endpoint in endpoints.items()
        if endpoint.stopped_at is None or now - endpoint.stopped_at < GRACE_SECONDS
    }


def _texts(amounts: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{amount:.3f}" for name, amount in amounts.items()}
