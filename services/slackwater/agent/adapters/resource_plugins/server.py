"""Our plugins for another manager: each is served as `ResourcePlugin` on a socket of its own, and registers there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from slackwater.agent.adapters.resource_plugins import wire
from slackwater.agent.adapters.resource_plugins.connection import DIAL_SECONDS, called, dial, plugin_channel
from slackwater.agent.adapters.resource_plugins.directory import PLUGIN_TYPE, status_of
from slackwater.agent.domain.resource_manager.endpoints import API_VERSION
from slackwater.agent.domain.resource_manager.messages import TIMEOUT_SECONDS, HeldResource, Rpc
from slackwater.agent.domain.resource_manager.plugin import ResourcePlugin
from slackwater.agent.domain.resource_manager.plugin_sockets import MANAGER_SOCKET
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.model.errors import SlackwaterError
from slackwater.v1.plugins import plugin_registration_pb2 as registration_pb
from slackwater.v1.plugins import resource_plugin_pb2 as pb
from slackwater.v1.plugins.plugin_registration_pb2_grpc import (
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from slackwater.v1.plugins.resource_plugin_pb2_grpc import (
    RegistrationStub,
    ResourcePluginServicer,
    add_ResourcePluginServicer_to_server,
)

_LARGEST_REQUEST = 1 << 20
Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")


@dataclass(slots=True)
class ServedPlugin(ResourcePluginServicer):
    """A plugin of ours as the contract has it. `nodes` are the NUMA nodes of the machine, `node_of` that of a CPU."""

    plugin: ResourcePlugin
    nodes: frozenset[int]
    node_of: Mapping[int, int] = field(default_factory=dict)

    async def GetResourcePluginOptions(self, request: pb.Empty, context: Context) -> pb.ResourcePluginOptions:  # noqa: N802
        return wire.options_message(self.plugin.options)

    async def GetTopologyHints(self, request: pb.ResourceRequest, context: Context) -> pb.ResourceHintsResponse:  # noqa: N802
        return pb.ResourceHintsResponse(
            **_container(request), resource_hints=await _answered(context, lambda: self._hints(request))
        )

    async def GetPodTopologyHints(  # noqa: N802
        self, request: pb.PodResourceRequest, context: Context
    ) -> pb.PodResourceHintsResponse:
        return pb.PodResourceHintsResponse(
            **_pod(request), resource_hints=await _answered(context, lambda: self._hints(request))
        )

    async def Allocate(self, request: pb.ResourceRequest, context: Context) -> pb.ResourceAllocationResponse:  # noqa: N802
        return pb.ResourceAllocationResponse(
            **_container(request), allocation_result=await _answered(context, lambda: self._allocate(request))
        )

    async def AllocateForPod(  # noqa: N802
        self, request: pb.PodResourceRequest, context: Context
    ) -> pb.PodResourceAllocationResponse:
        return pb.PodResourceAllocationResponse(
            **_pod(request), allocation_result=await _answered(context, lambda: self._allocate(request))
        )

    async def GetResourcesAllocation(  # noqa: N802
        self, request: pb.GetResourcesAllocationRequest, context: Context
    ) -> pb.GetResourcesAllocationResponse:
        return await _answered(context, lambda: wire.allocations_message(self.plugin.allocations()))

    async def GetTopologyAwareResources(  # noqa: N802
        self, request: pb.GetTopologyAwareResourcesRequest, context: Context
    ) -> pb.GetTopologyAwareResourcesResponse:
        return await _answered(
            context,
            lambda: wire.held_message(
                request.pod_uid, request.container_name, self._held(request.pod_uid, request.container_name)
            ),
        )

    async def GetTopologyAwareAllocatableResources(  # noqa: N802
        self, request: pb.GetTopologyAwareAllocatableResourcesRequest, context: Context
    ) -> pb.GetTopologyAwareAllocatableResourcesResponse:
        return await _answered(context, lambda: wire.allocatable_message(self.plugin.allocatable()))

    async def PreStartContainer(  # noqa: N802
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()

    async def RemovePod(self, request: pb.RemovePodRequest, context: Context) -> pb.RemovePodResponse:  # noqa: N802
        await _answered(context, lambda: self.plugin.remove(request.pod_uid))
        return pb.RemovePodResponse()

    def _hints(self, message: pb.ResourceRequest | pb.PodResourceRequest) -> dict[str, pb.ListOfTopologyHints]:
        hints = self.plugin.hints(wire.request_of(message, self.nodes))
        return {} if hints is None else {self.plugin.resource: wire.hints_message(hints)}

    def _allocate(self, message: pb.ResourceRequest | pb.PodResourceRequest) -> pb.ResourceAllocation:
        return wire.allocation_message(self.plugin.allocate(wire.request_of(message, self.nodes)))

    def _held(self, uid: str, container: str) -> Mapping[str, HeldResource]:
        """By NUMA node where that is known: of a cpuset, or of what is on one node."""
        held: dict[str, HeldResource] = {}
        for name, allocation in self.plugin.allocations().get((uid, container), {}).items():
            by_node: dict[int, float] = {}
            if allocation.oci == "CpusetCpus":
                for cpu in parse_cpu_list(allocation.result):
                    if cpu in self.node_of:
                        by_node[self.node_of[cpu]] = by_node.get(self.node_of[cpu], 0.0) + 1
            elif allocation.oci == "CpusetMems" and allocation.result.isdecimal():
                by_node = {int(allocation.result): allocation.quantity}
            held[name] = HeldResource(allocation.quantity, by_node, allocation.is_node, allocation.is_scalar)
        return held


@dataclass(slots=True)
class _Info(RegistrationServicer):
    """For a manager that finds plugins by their sockets."""

    resource: str
    endpoint: str
    error: str = ""

    async def GetInfo(self, request: registration_pb.InfoRequest, context: Context) -> registration_pb.PluginInfo:  # noqa: N802
        return registration_pb.PluginInfo(
            type=PLUGIN_TYPE, name=self.resource, endpoint=self.endpoint, supported_versions=[API_VERSION]
        )

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration_pb.RegistrationStatus, context: Context
    ) -> registration_pb.RegistrationStatusResponse:
        self.error = request.error
        return registration_pb.RegistrationStatusResponse()


@asynccontextmanager
async def served(
    plugin: ResourcePlugin,
    folder: Path,
    nodes: frozenset[int],
    node_of: Mapping[int, int] | None = None,
    seconds: float = DIAL_SECONDS,
    *,
    registers: bool = True,
) -> AsyncIterator[Path]:
    """Serve a plugin in the directory of a manager, and register it there; its socket goes at the end. Where the
    manager finds plugins itself it need not register.

    Raises Unavailable without a manager, Conflict or InvalidInput where it refuses.
    """
    path = folder / f"slackwater-{plugin.resource.rpartition('/')[2].lower()}.sock"
    path.unlink(missing_ok=True)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", _LARGEST_REQUEST)])
    add_ResourcePluginServicer_to_server(ServedPlugin(plugin, nodes, node_of or {}), server)
    add_RegistrationServicer_to_server(_Info(plugin.resource, str(path)), server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        if registers:
            await _register(plugin, folder / MANAGER_SOCKET, path.name, seconds)
        yield path
    finally:
        await server.stop(0)
        path.unlink(missing_ok=True)


async def _register(plugin: ResourcePlugin, manager: Path, socket: str, seconds: float) -> None:
    channel = plugin_channel(manager)
    try:
        await dial(channel, manager, seconds)
        request = pb.RegisterRequest(
            version=API_VERSION,
            endpoint=socket,
            resource_name=plugin.resource,
            options=wire.options_message(plugin.options),
        )
        subject = f"{plugin.resource}: the manager at {manager}"
        await called(RegistrationStub(channel).Register, request, TIMEOUT_SECONDS[Rpc.OPTIONS], subject)
    finally:
        await channel.close()


async def _answered(context: Context, answer: Callable[[], T]) -> T:
    """The answer; a refusal becomes a status with its sentence."""
    try:
        return answer()
    except SlackwaterError as error:
        await context.abort(status_of(error), error.message)
        raise AssertionError("abort raises") from error


def _pod(request: pb.ResourceRequest | pb.PodResourceRequest) -> dict[str, Any]:
    """What an answer repeats of its request."""
    names = ("pod_uid", "pod_namespace", "pod_name", "pod_role", "pod_type", "resource_name", "labels", "annotations")
    return {name: getattr(request, name) for name in names}


def _container(request: pb.ResourceRequest) -> dict[str, Any]:
    names = ("container_name", "container_type", "container_index", "native_qos_class")
    return {**_pod(request), **{name: getattr(request, name) for name in names}}
