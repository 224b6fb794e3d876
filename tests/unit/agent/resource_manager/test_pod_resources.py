"""pod-resources v1 at a real socket, read by generated stubs; and what plugins add to the node's description."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from plugin_double import NIC, PluginDouble, allocation
from test_foreign_placement import _node, _pod

from slackwater.agent.adapters.resource_plugins.pod_resources import PodResourcesServer
from slackwater.agent.domain.resource_manager.endpoints import GRACE_SECONDS
from slackwater.agent.domain.resource_manager.messages import Rpc
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.model.errors import Misconfigured
from slackwater.model.tiers import QoSClass
from slackwater.v1.plugins import pod_resources_pb2 as pb
from slackwater.v1.plugins import resource_plugin_pb2 as plugin_pb
from slackwater.v1.plugins.pod_resources_pb2_grpc import PodResourcesListerStub


@asynccontextmanager
async def _stub(folder: Path, placing: PlacePods) -> AsyncIterator[PodResourcesListerStub]:
    path = folder / "pod-resources" / "kubelet.sock"
    server = await PodResourcesServer(placing, path).listen()
    try:
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            yield PodResourcesListerStub(channel)
    finally:
        await server.stop(0)


def _nodes(topology: pb.TopologyInfo) -> list[int]:
    return [node.ID for node in topology.nodes]


async def test_what_pods_have_for_themselves_is_listed(plugins_dir: Path) -> None:
    hinted = plugin_pb.ListOfTopologyHints(hints=[plugin_pb.TopologyHint(nodes=[1], preferred=True)])
    held = allocation(allocation_result="eth0,eth1", resource_hints=hinted)
    reported = {"lsr": plugin_pb.ContainerResources(container_resources={"main": held})}
    plugin = PluginDouble(
        answers={
            Rpc.ALLOCATE: plugin_pb.ResourceAllocationResponse(allocation_result=held),
            Rpc.ALLOCATIONS: plugin_pb.GetResourcesAllocationResponse(pod_resources=reported),
        }
    )
    async with _node(plugins_dir, plugin) as node, _stub(plugins_dir, node.placing) as stub:
        node.pods = [_pod("lsr", is_bound=True), _pod("web", None, QoSClass.LS)]
        await node.turn()
        listed = {pod.name: pod for pod in (await stub.List(pb.ListPodResourcesRequest())).pod_resources}
        assert set(listed) == {"lsr", "web"}
        (own,), (shared,) = listed["lsr"].containers, listed["web"].containers
        assert (listed["lsr"].namespace, own.name) == ("default", "main")
        assert len(own.cpu_ids) == 1
        assert set(own.cpu_ids) <= {4, 5, 6, 7}
        (memory,) = own.memory
        assert (memory.memory_type, memory.size, _nodes(memory.topology)) == ("memory", 1 << 20, [1])
        (devices,) = own.devices
        assert (devices.resource_name, list(devices.device_ids), _nodes(devices.topology)) == (
            NIC,
            ["eth0", "eth1"],
            [1],
        )
        assert (list(shared.cpu_ids), list(shared.memory), list(shared.devices)) == ([], [], [])
        pod = (await stub.Get(pb.GetPodResourcesRequest(pod_name="lsr", pod_namespace="default"))).pod_resources
        assert pod == listed["lsr"]
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Get(pb.GetPodResourcesRequest(pod_name="lsr", pod_namespace="other"))
        assert refusal.value.code() is grpc.StatusCode.NOT_FOUND


async def test_what_there_is_for_pods_is_without_what_is_reserved(plugins_dir: Path) -> None:
    async with _node(plugins_dir, PluginDouble()) as node, _stub(plugins_dir, node.placing) as stub:
        await node.turn()
        there = await stub.GetAllocatableResources(pb.AllocatableResourcesRequest())
        assert list(there.cpu_ids) == [1, 2, 3, 4, 5, 6, 7]
        assert [(memory.size, _nodes(memory.topology)) for memory in there.memory] == [(1 << 30, [0]), (1 << 30, [1])]
        assert [device.resource_name for device in there.devices] == [NIC]


async def test_a_socket_that_cannot_be_is_named(tmp_path: Path, plugins_dir: Path) -> None:
    async with _node(plugins_dir, PluginDouble()) as node:
        with pytest.raises(Misconfigured, match="SLACKWATER_AGENT_POD_RESOURCES_SOCKET"):
            await PodResourcesServer(node.placing, tmp_path / ("a" * 120)).listen()


async def test_plugins_add_their_resources_to_the_node_until_they_are_gone(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        await node.turn()
        assert node.placing.node_resources() == {NIC: 3}
        await node.turn()
        assert [rpc for rpc, _ in plugin.asked].count(Rpc.ALLOCATABLE) == 1, "not at every turn"
        plugin.answers[Rpc.ALLOCATABLE] = grpc.StatusCode.INTERNAL
        for _ in range(11):
            await node.turn()
        assert node.placing.node_resources() == {NIC: 0}, "what does not answer has nothing left"
    await node.remote.scan()
    assert node.placing.node_resources() == {NIC: 0}
    await node.clock.advance(GRACE_SECONDS + 1)
    await node.remote.scan()
    assert node.placing.node_resources() == {}


async def test_without_plugins_of_other_processes_the_node_has_no_more_resources(plugins_dir: Path) -> None:
    async with _node(plugins_dir, PluginDouble()) as node:
        node.placing.remote = None
        node.placing.update([replace(_pod("web", None, QoSClass.LS))])
        assert node.placing.node_resources() == {}
