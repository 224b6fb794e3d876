"""A plugin in this process, and how it answers the calls of the manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slackwater.agent.domain.resource_manager.messages import (
    PREFIX,
    QOS_LEVEL,
    AllocatableResource,
    Allocated,
    Allocation,
    ContainerType,
    PluginCall,
    PluginFailure,
    PluginOptions,
    ResourceRequest,
    Rpc,
)
from slackwater.kernels.topology.hints import Hint
from slackwater.model.errors import InvalidInput, SlackwaterError
from slackwater.model.json_text import parse_json_text

DEBUG_POD = f"qrm.{PREFIX}debug_pod"
MEMORY_ENHANCEMENT, CPU_ENHANCEMENT, NETWORK_ENHANCEMENT = (
    f"{PREFIX}{part}_enhancement" for part in ("memory", "cpu", "network")
)


class ResourcePlugin(Protocol):
    """Allocates resources of this node. Refusals are SlackwaterErrors."""

    resource: str
    options: PluginOptions

    def hints(self, request: ResourceRequest) -> Sequence[Hint] | None:
        """The NUMA nodes that could hold a request. None: no preference."""
        ...

    def allocate(self, request: ResourceRequest) -> Allocated:
        """What the container has from now on; empty: nothing is set for it."""
        ...

    def allocations(self) -> Mapping[tuple[str, str], Allocated]:
        """What every container has now, by uid and name."""
        ...

    def adopt(self, request: ResourceRequest, allocation: Allocation) -> None:
        """Continue with what a container had before the start of this process."""
        ...

    def remove(self, uid: str) -> None:
        """Release what the containers of a pod have."""
        ...

    def allocatable(self) -> Mapping[str, AllocatableResource]:
        """What there is on this node."""
        ...


def answer_of(plugin: ResourcePlugin, call: PluginCall) -> Any:
    """Returns the answer to a call; a refusal as PluginFailure."""
    try:
        match call.rpc:
            case Rpc.HINTS | Rpc.POD_HINTS:
                return {plugin.resource: plugin.hints(call.request)}
            case Rpc.ALLOCATE:
                return plugin.allocate(call.request)
            case Rpc.ALLOCATIONS:
                return plugin.allocations()
            case Rpc.REMOVE:
                return plugin.remove(call.request)
            case Rpc.ALLOCATABLE:
                return plugin.allocatable()
            case Rpc.OPTIONS:
                return plugin.options
            case _:
                return None
    except SlackwaterError as error:
        return PluginFailure(error.message)


def enhancements(
    request: ResourceRequest, names: Sequence[str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the wishes of the pod's JSON annotations of these names. Raises InvalidInput for what is no object of
    texts."""
    merged: dict[str, str] = dict(defaults or {})
    for name in names:
        text = request.annotations.get(name)
        if not text:
            continue
        try:
            document = parse_json_text(text)
            merged |= {str(key): str(value) for key, value in document.items()}
        except (ValueError, AttributeError):
            raise InvalidInput(f"{name}: {text[:60]!r} is no JSON object", field=name) from None
    return merged


def response_annotations(
    request: ResourceRequest, names: Sequence[str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the annotations of a plugin's answer: level and wishes in their flat form."""
    return {QOS_LEVEL: request.level.value, **enhancements(request, names, defaults)}


def is_trivial(request: ResourceRequest) -> bool:
    """Returns whether nothing is bound for the container: init containers, and pods for debugging."""
    return request.type is ContainerType.INIT or DEBUG_POD in request.annotations


def nothing_bound(resource: str, request: ResourceRequest) -> Allocated:
    """Returns the allocation of such a container: none for init containers, an empty one for debugging."""
    return {} if request.type is ContainerType.INIT else {resource: Allocation("", 0.0, "")}


def is_bound(wishes: Mapping[str, str]) -> bool:
    return wishes.get("numa_binding") == "true"


def request_hints(request: ResourceRequest) -> tuple[Hint | None, ...]:
    """Returns the hints of an allocation: the one of its request, or a place for none."""
    return (request.hint if request.hint is not None and request.hint.mask is not None else None,)
