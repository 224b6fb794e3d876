"""A resource plugin for a node: it gives containers seats of a licence, and says so in their environment.

    python examples/resource_plugin.py /var/lib/slackwater/resource-plugins --seats 8

Needs only grpcio and the stubs in the package `slackwater` (or your own, generated from contracts/proto). It runs in
any manager that speaks `resourceplugin.v1alpha1`: it registers at `kubelet.sock` in the directory, and again when that
socket is made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from slackwater.v1.plugins import resource_plugin_pb2 as api
from slackwater.v1.plugins import resource_plugin_pb2_grpc as stubs

RESOURCE, SOCKET, MANAGER = "example.com/seat", "seats.sock", "kubelet.sock"
LOOK_SECONDS = 0.5


class Seats(stubs.ResourcePluginServicer):
    """`held`: the numbers of seats by pod and container. A container that asks again gets what it has."""

    def __init__(self, seats: int) -> None:
        self.seats = seats
        self.held: dict[tuple[str, str], list[int]] = {}

    async def GetResourcePluginOptions(self, request: api.Empty, context: Any) -> api.ResourcePluginOptions:  # noqa: N802
        return api.ResourcePluginOptions(need_reconcile=True)  # seats are near to every NUMA node: no alignment

    async def Allocate(self, request: api.ResourceRequest, context: Any) -> api.ResourceAllocationResponse:  # noqa: N802
        key = request.pod_uid, request.container_name
        amount = round(next(iter(request.resource_requests.values()), 0))
        held = {seat for other, seats in self.held.items() if other != key for seat in seats}
        free = [seat for seat in range(self.seats) if seat not in held]
        if amount > len(free):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{amount} seats are asked for and {len(free)} are free"
            )
        self.held[key] = free[:amount]
        print("allocated", *key, *self.held[key], flush=True)
        return api.ResourceAllocationResponse(
            pod_uid=request.pod_uid,
            container_name=request.container_name,
            resource_name=RESOURCE,
            allocation_result=self._allocation(key),
        )

    async def GetResourcesAllocation(  # noqa: N802
        self, request: api.GetResourcesAllocationRequest, context: Any
    ) -> api.GetResourcesAllocationResponse:
        answer = api.GetResourcesAllocationResponse()
        for key in self.held:
            answer.pod_resources[key[0]].container_resources[key[1]].CopyFrom(self._allocation(key))
        return answer

    async def GetTopologyAwareAllocatableResources(  # noqa: N802
        self, request: api.GetTopologyAwareAllocatableResourcesRequest, context: Any
    ) -> api.GetTopologyAwareAllocatableResourcesResponse:
        there = api.AllocatableTopologyAwareResource(
            is_node_resource=True,
            is_scalar_resource=True,
            aggregated_allocatable_quantity=self.seats,
            aggregated_capacity_quantity=self.seats,
        )
        return api.GetTopologyAwareAllocatableResourcesResponse(allocatable_resources={RESOURCE: there})

    async def RemovePod(self, request: api.RemovePodRequest, context: Any) -> api.RemovePodResponse:  # noqa: N802
        for key in [key for key in self.held if key[0] == request.pod_uid]:
            print("released", *key, *self.held.pop(key), flush=True)
        return api.RemovePodResponse()

    def _allocation(self, key: tuple[str, str]) -> api.ResourceAllocation:
        seats = self.held[key]
        info = api.ResourceAllocationInfo(
            is_node_resource=True,
            is_scalar_resource=True,
            allocated_quantity=len(seats),
            envs={"LICENCE_SEATS": ",".join(map(str, seats))},
        )
        return api.ResourceAllocation(resource_allocation={RESOURCE: info})


async def register(folder: Path) -> None:
    """Announce the plugin. Raises AioRpcError where the manager refuses or is not there."""
    async with grpc.aio.insecure_channel(f"unix:{folder / MANAGER}") as channel:
        options = api.ResourcePluginOptions(need_reconcile=True)
        request = api.RegisterRequest(version="v1alpha1", endpoint=SOCKET, resource_name=RESOURCE, options=options)
        await stubs.RegistrationStub(channel).Register(request, timeout=10, wait_for_ready=False)


async def stay_registered(folder: Path) -> None:
    """Register whenever the manager's socket is another one: the manager was started, or started again."""
    registered_at = None
    while True:
        try:
            status = (folder / MANAGER).stat()
            if (status.st_ino, status.st_mtime_ns) != registered_at:
                await register(folder)
                registered_at = status.st_ino, status.st_mtime_ns
                print("registered", flush=True)
        except FileNotFoundError:
            registered_at = None
        except grpc.aio.AioRpcError as error:
            print("not registered:", error.details(), flush=True)
        await asyncio.sleep(LOOK_SECONDS)


async def main(folder: Path, seats: int) -> None:
    (folder / SOCKET).unlink(missing_ok=True)
    server = grpc.aio.server()
    stubs.add_ResourcePluginServicer_to_server(Seats(seats), server)
    server.add_insecure_port(f"unix:{folder / SOCKET}")
    await server.start()
    staying = asyncio.create_task(stay_registered(folder))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, staying.cancel)
    await asyncio.wait([staying])
    await server.stop(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Give containers of this node seats of a licence.")
    parser.add_argument("folder", type=Path, help="the directory of plugins")
    parser.add_argument("--seats", type=int, default=8)
    options = parser.parse_args()
    asyncio.run(main(options.folder, options.seats))
