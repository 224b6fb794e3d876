"""Serves pod-resources v1 on a unix socket: what pods of this node have for themselves, and what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from slackwater.agent.adapters.resource_plugins.directory import FOLDER_MODE, LONGEST_SOCKET_PATH
from slackwater.agent.domain.resource_manager.cpu_plugin import CPU
from slackwater.agent.domain.resource_manager.memory_plugin import MEMORY
from slackwater.agent.domain.resource_manager.messages import Allocated, Allocation
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.hints import nodes_of
from slackwater.kernels.topology.pools import HolderKind
from slackwater.model.errors import Misconfigured
from slackwater.runtime.owned_files import own_folder
from slackwater.telemetry.logs import get_logger
from slackwater.v1.plugins import pod_resources_pb2 as pb
from slackwater.v1.plugins.pod_resources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)

_log = get_logger(__name__)
_LARGEST_REQUEST = 64 << 10
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(slots=True)
class PodResourcesServer(PodResourcesListerServicer):
    """Answers from memory: no plugin is asked during a call."""

    placement: PlacePods
    path: Path

    async def run(self) -> None:
        """Serve until cancelled. Without a socket to use the agent works without it."""
        try:
            server = await self.listen()
        except Misconfigured as error:
            _log.error("no pod resources", error=error.message)
            return
        try:
            await server.wait_for_termination()
        finally:
            await server.stop(0)
            self.path.unlink(missing_ok=True)

    async def listen(self) -> grpc.aio.Server:
        """Raises Misconfigured where the socket cannot be used."""
        if len(str(self.path)) > LONGEST_SOCKET_PATH:
            raise Misconfigured(
                f"SLACKWATER_AGENT_POD_RESOURCES_SOCKET: {self.path} has more than {LONGEST_SOCKET_PATH} characters"
            )
        try:
            own_folder(self.path.parent, FOLDER_MODE)
            self.path.unlink(missing_ok=True)
            server = grpc.aio.server(options=[("grpc.max_receive_message_length", _LARGEST_REQUEST)])
            add_PodResourcesListerServicer_to_server(self, server)
            server.add_insecure_port(f"unix:{self.path}")
            await server.start()
        except (OSError, RuntimeError) as error:
            raise Misconfigured(f"SLACKWATER_AGENT_POD_RESOURCES_SOCKET: {self.path}: {error}") from None
        return server

    async def List(  # noqa: N802 - of the contract
        self, request: pb.ListPodResourcesRequest, context: Context
    ) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=list(self._pods()))

    async def Get(self, request: pb.GetPodResourcesRequest, context: Context) -> pb.GetPodResourcesResponse:  # noqa: N802
        for pod in self._pods():
            if (pod.name, pod.namespace) == (request.pod_name, request.pod_namespace):
                return pb.GetPodResourcesResponse(pod_resources=pod)
        name = f"{request.pod_namespace}/{request.pod_name}"[:160]
        await context.abort(grpc.StatusCode.NOT_FOUND, f"pod {name} is not placed on this node")
        raise AssertionError("abort raises")

    async def GetAllocatableResources(  # noqa: N802
        self, request: pb.AllocatableResourcesRequest, context: Context
    ) -> pb.AllocatableResourcesResponse:
        placement = self.placement
        demand = placement.cpu.demand
        cpus = placement.cpu.machine.ids - demand.reserved - demand.forbidden
        by_node = placement.memory.allocatable()[MEMORY].by_node
        foreign = placement.capacity.reports.values()
        return pb.AllocatableResourcesResponse(
            cpu_ids=sorted(cpus),
            memory=[_memory(int(size), (node,)) for node, size in sorted(by_node.items())],
            devices=[
                pb.ContainerDevices(resource_name=name, topology=_topology(sorted(report.by_node)))
                for reports in foreign
                for name, report in sorted(reports.items())
            ],
        )

    def _pods(self) -> Iterator[pb.PodResources]:
        """Pods in the order of their uids; while one is being placed, what it has so far is left out."""
        for (uid, container), allocated in sorted(self.placement.manager.entries.items()):
            pod = self.placement.placed.get(uid)
            if pod is not None:
                held = self._container(uid, container, allocated)
                yield pb.PodResources(name=pod.name, namespace=pod.namespace, containers=[held])

    def _container(self, uid: str, container: str, allocated: Allocated) -> pb.ContainerResources:
        holder = self.placement.cpu.holders.get((uid, container))
        owns = holder is not None and holder.kind is HolderKind.DEDICATED
        others: Mapping[str, Allocation] = {
            name: allocation for name, allocation in allocated.items() if name not in (CPU, MEMORY)
        }
        bound = holder is not None and bool(holder.nodes) and MEMORY in allocated
        return pb.ContainerResources(
            name=container,
            cpu_ids=sorted(parse_cpu_list(allocated[CPU].result)) if owns and CPU in allocated else (),
            memory=[_bound_memory(allocated[MEMORY])] if bound else (),
            devices=[_devices(name, allocation) for name, allocation in sorted(others.items())],
        )


def _bound_memory(allocation: Allocation) -> pb.ContainerMemory:
    return _memory(int(allocation.quantity), sorted(parse_cpu_list(allocation.result)))


def _memory(size: int, nodes: tuple[int, ...] | list[int]) -> pb.ContainerMemory:
    return pb.ContainerMemory(memory_type=MEMORY, size=size, topology=_topology(nodes))


def _devices(name: str, allocation: Allocation) -> pb.ContainerDevices:
    """The parts of a plugin's result are taken as ids; where they are is the hint that it was allocated by."""
    ids = [part for part in allocation.result.split(",") if part]
    masks = [hint.mask for hint in allocation.hints if hint is not None and hint.mask]
    nodes = sorted({node for mask in masks for node in nodes_of(mask)})
    return pb.ContainerDevices(resource_name=name, device_ids=ids, topology=_topology(nodes))


def _topology(nodes: tuple[int, ...] | list[int]) -> pb.TopologyInfo | None:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes]) if nodes else None
