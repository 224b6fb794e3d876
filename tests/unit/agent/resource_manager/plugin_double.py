"""A resource plugin of another process: a server of generated stubs on a real unix socket, that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from slackwater.agent.adapters.resource_plugins.connection import PluginConnection
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.messages import Rpc
from slackwater.v1.plugins import plugin_registration_pb2 as registration_pb
from slackwater.v1.plugins import resource_plugin_pb2 as pb
from slackwater.v1.plugins.plugin_registration_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server
from slackwater.v1.plugins.resource_plugin_pb2_grpc import (
    RegistrationStub,
    ResourcePluginServicer,
    add_ResourcePluginServicer_to_server,
)

NIC = "example.com/nic"
BOUNDS = ForeignBounds(frozenset({0, 1}), frozenset({"cpu", "memory"}), frozenset({"CpusetCpus", "CpusetMems"}))
SHORT: Mapping[Rpc, float] = dict.fromkeys(Rpc, 0.3)
OPTIONS = pb.ResourcePluginOptions(with_topology_alignment=True, need_reconcile=True)


def allocation(resource: str = NIC, **info: Any) -> pb.ResourceAllocation:
    info = {"allocated_quantity": 1, "is_scalar_resource": True, "envs": {"NIC": "eth1"}, **info}
    return pb.ResourceAllocation(resource_allocation={resource: pb.ResourceAllocationInfo(**info)})


@dataclass
class PluginDouble(ResourcePluginServicer):
    """Answers each RPC with `answers`, or allocates one of its resource. `hangs`: RPCs that never answer."""

    resource: str = NIC
    answers: dict[Rpc, Any] = field(default_factory=dict)
    hangs: set[Rpc] = field(default_factory=set)
    asked: list[tuple[Rpc, Any]] = field(default_factory=list)
    held: dict[tuple[str, str], pb.ResourceAllocation] = field(default_factory=dict)
    after: Callable[[Rpc], Any] = lambda rpc: None
    status: registration_pb.RegistrationStatus | None = None

    async def _answer(self, rpc: Rpc, request: Any, usual: Any) -> Any:
        self.asked.append((rpc, request))
        if rpc in self.hangs:
            await asyncio.Event().wait()
        self.after(rpc)
        answer = self.answers.get(rpc, usual)
        if isinstance(answer, grpc.StatusCode):
            raise _Aborted(answer)
        return answer

    async def GetResourcePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._answer(Rpc.OPTIONS, request, OPTIONS)

    async def GetTopologyHints(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._answer(Rpc.HINTS, request, pb.ResourceHintsResponse(resource_hints=self._hints()))

    async def GetPodTopologyHints(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._answer(Rpc.POD_HINTS, request, pb.PodResourceHintsResponse(resource_hints=self._hints()))

    async def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        usual = pb.ResourceAllocationResponse(pod_uid=request.pod_uid, allocation_result=allocation(self.resource))
        answer = await self._answer(Rpc.ALLOCATE, request, usual)
        self.held[request.pod_uid, request.container_name] = usual.allocation_result
        return answer

    async def AllocateForPod(self, request: Any, context: Any) -> Any:  # noqa: N802
        usual = pb.PodResourceAllocationResponse(allocation_result=allocation(self.resource))
        return await self._answer(Rpc.ALLOCATE_FOR_POD, request, usual)

    async def GetResourcesAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        pods = {uid: pb.ContainerResources(container_resources={name: held}) for (uid, name), held in self.held.items()}
        return await self._answer(Rpc.ALLOCATIONS, request, pb.GetResourcesAllocationResponse(pod_resources=pods))

    async def GetTopologyAwareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        on_node = pb.TopologyAwareQuantity(resource_value=1, node=1)
        held = pb.TopologyAwareResource(aggregated_quantity=1, topology_aware_quantity_list=[on_node])
        container = pb.ContainerTopologyAwareResources(allocated_resources={self.resource: held})
        usual = pb.GetTopologyAwareResourcesResponse(container_topology_aware_resources=container)
        return await self._answer(Rpc.AWARE, request, usual)

    async def GetTopologyAwareAllocatableResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        of_node = pb.AllocatableTopologyAwareResource(
            is_node_resource=True,
            is_scalar_resource=True,
            aggregated_allocatable_quantity=3,
            aggregated_capacity_quantity=4,
        )
        usual = pb.GetTopologyAwareAllocatableResourcesResponse(allocatable_resources={self.resource: of_node})
        return await self._answer(Rpc.ALLOCATABLE, request, usual)

    async def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._answer(Rpc.PRE_START, request, pb.PreStartContainerResponse())

    async def RemovePod(self, request: Any, context: Any) -> Any:  # noqa: N802
        for key in [key for key in self.held if key[0] == request.pod_uid]:
            del self.held[key]
        return await self._answer(Rpc.REMOVE, request, pb.RemovePodResponse())

    def _hints(self) -> Mapping[str, pb.ListOfTopologyHints]:
        hint = pb.TopologyHint(nodes=[1], preferred=True)
        return {self.resource: pb.ListOfTopologyHints(hints=[hint])}


class _Aborted(Exception):
    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__(code)


@dataclass
class _Info(RegistrationServicer):
    plugin: PluginDouble
    versions: tuple[str, ...]
    kind: str

    async def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return registration_pb.PluginInfo(
            type=self.kind, name=self.plugin.resource, supported_versions=list(self.versions)
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.plugin.status = request
        return registration_pb.RegistrationStatusResponse()


@asynccontextmanager
async def plugin_at(
    path: Path,
    plugin: PluginDouble,
    *,
    is_found: bool = False,
    versions: tuple[str, ...] = ("v1alpha1",),
    kind: str = "ResourcePlugin",
) -> AsyncIterator[grpc.aio.Server]:
    """Serve a plugin; `is_found`: it says what it is where the manager asks."""
    server = grpc.aio.server()
    add_ResourcePluginServicer_to_server(plugin, server)
    if is_found:
        add_RegistrationServicer_to_server(_Info(plugin, versions, kind), server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)
        path.unlink(missing_ok=True)


@asynccontextmanager
async def connected(
    folder: Path, plugin: PluginDouble, bounds: ForeignBounds = BOUNDS, timeouts: Mapping[Rpc, float] = SHORT
) -> AsyncIterator[PluginConnection]:
    async with plugin_at(folder / "nic.sock", plugin):
        connection = PluginConnection(plugin.resource, folder / "nic.sock", bounds, timeouts)
        await connection.dial()
        try:
            yield connection
        finally:
            await connection.close()


async def registers(folder: Path, resource: str = NIC, endpoint: str = "nic.sock", version: str = "v1alpha1") -> None:
    """Register as a plugin does. Raises AioRpcError where the manager refuses."""
    async with grpc.aio.insecure_channel(f"unix:{folder}/kubelet.sock") as channel:
        request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource, options=OPTIONS)
        await RegistrationStub(channel).Register(request, timeout=10)
