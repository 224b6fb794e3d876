"""Our plugins in another manager: they register with it, and answer generated stubs as its contract says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.support.clock import FakeClock

from slackwater.agent.adapters.resource_plugins.directory import PluginDirectory
from slackwater.agent.adapters.resource_plugins.server import served
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import PREFIX, QOS_LEVEL
from slackwater.agent.domain.resource_manager.nic_plugin import Nic, NicPlugin
from slackwater.agent.domain.resource_manager.plugin import MEMORY_ENHANCEMENT, ResourcePlugin
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.pools import PoolDemand
from slackwater.model.errors import Conflict, Unavailable
from slackwater.v1.plugins import resource_plugin_pb2 as pb
from slackwater.v1.plugins.resource_plugin_pb2_grpc import (
    RegistrationServicer,
    ResourcePluginStub,
    add_RegistrationServicer_to_server,
)

MACHINE = CpuMachine(tuple(Cpu(cpu, cpu, cpu // 40, cpu // 40, cpu // 40) for cpu in range(80)))
RESERVED = frozenset({0, 1, 40, 41})
NODES = frozenset({0, 1})
APART = frozenset({frozenset({"storage-service", "reranker"})})
BOUND = {QOS_LEVEL: "dedicated_cores", MEMORY_ENHANCEMENT: json.dumps({"numa_binding": "true"})}
NICS = (
    Nic("eth0", frozenset({0}), ipv6="fdbd:dc05:3:154::20"),
    Nic("eth1", frozenset({1}), ipv6="fdbd:dc05:3:155::20", namespace="/var/run/netns/ns1"),
)


@dataclass
class ManagerDouble(RegistrationServicer):
    """A manager of generated stubs alone, which accepts plugins and asks them."""

    folder: Path
    refuses: str = ""
    registered: dict[str, pb.RegisterRequest] = field(default_factory=dict)

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.Empty:  # noqa: N802
        if self.refuses:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refuses)
        self.registered[request.resource_name] = request
        return pb.Empty()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = grpc.aio.server()
        add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        await server.start()
        try:
            yield
        finally:
            await server.stop(0)

    @asynccontextmanager
    async def plugin(self, resource: str) -> AsyncIterator[ResourcePluginStub]:
        path = self.folder / self.registered[resource].endpoint
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            yield ResourcePluginStub(channel)

    async def admit(self, uid: str, role: str, amounts: Mapping[str, float]) -> dict[str, pb.ResourceAllocationInfo]:
        """Hints, the first node that all prefer, and an allocation of each resource, as a kubelet does it."""
        requests = {
            resource: pb.ResourceRequest(
                pod_uid=uid,
                pod_name=uid,
                container_name="main",
                container_type=pb.ContainerType.MAIN,
                pod_role=role,
                resource_name=resource,
                resource_requests={resource: amount},
                annotations=BOUND,
                labels={f"{PREFIX}pod_role": role},
            )
            for resource, amount in amounts.items()
        }
        masks: list[set[tuple[int, ...]]] = []
        for resource, request in requests.items():
            async with self.plugin(resource) as stub:
                hints = (await stub.GetTopologyHints(request)).resource_hints
            if resource in hints:
                masks.append({tuple(hint.nodes) for hint in hints[resource].hints if hint.preferred})
        nodes = min(set.intersection(*masks))
        allocated: dict[str, pb.ResourceAllocationInfo] = {}
        for resource, request in requests.items():
            request.hint.CopyFrom(pb.TopologyHint(nodes=nodes, preferred=True))
            async with self.plugin(resource) as stub:
                answer = await stub.Allocate(request)
            assert (answer.pod_uid, answer.container_name, answer.resource_name) == (uid, "main", resource)
            allocated |= answer.allocation_result.resource_allocation
        return allocated


def _plugins() -> dict[str, ResourcePlugin]:
    return {
        "cpu": CpuPlugin(MACHINE, PoolDemand(reserved=RESERVED), CpuPluginRules(apart=APART)),
        "memory": MemoryPlugin([MemoryNode(0, 0, 1 << 37), MemoryNode(1, 1, 1 << 37)], apart=APART),
        "NIC": NicPlugin(NICS, NODES, resource="NIC"),
    }


@asynccontextmanager
async def _node(folder: Path) -> AsyncIterator[ManagerDouble]:
    """All plugins of ours, registered with a manager."""
    manager, node_of = ManagerDouble(folder), {cpu.id: cpu.numa for cpu in MACHINE.cpus}
    plugins = _plugins()
    async with (
        manager.listening(),
        served(plugins["cpu"], folder, NODES, node_of),
        served(plugins["memory"], folder, NODES),
        served(plugins["NIC"], folder, NODES),
    ):
        yield manager


async def test_ours_register_with_version_name_and_options(plugins_dir: Path) -> None:
    async with _node(plugins_dir) as manager:
        assert {name: request.version for name, request in manager.registered.items()} == dict.fromkeys(
            ("cpu", "memory", "NIC"), "v1alpha1"
        )
        assert manager.registered["cpu"].endpoint == "slackwater-cpu.sock"
        assert manager.registered["cpu"].options.need_reconcile
        async with manager.plugin("NIC") as nic:
            assert (await nic.GetResourcePluginOptions(pb.Empty())).with_topology_alignment
    assert sorted(path.name for path in plugins_dir.iterdir()) == []


async def test_the_second_worked_example_over_grpc(plugins_dir: Path) -> None:
    async with _node(plugins_dir) as manager:
        first = await manager.admit("pod1", "storage-service", {"cpu": 20, "memory": 40e9})
        second = await manager.admit("pod2", "reranker", {"cpu": 10, "memory": 20e9})
        assert (first["cpu"].allocation_result, first["memory"].allocation_result) == ("2-21", "0")
        assert (second["cpu"].allocation_result, second["memory"].allocation_result) == ("42-51", "1")
        assert (first["cpu"].oci_property_name, first["cpu"].allocated_quantity) == ("CpusetCpus", 20)
        assert [list(hint.nodes) for hint in second["cpu"].resource_hints.hints] == [[1]]
        async with manager.plugin("cpu") as cpu:
            held = await cpu.GetTopologyAwareResources(
                pb.GetTopologyAwareResourcesRequest(pod_uid="pod2", container_name="main")
            )
            resource = held.container_topology_aware_resources.allocated_resources["cpu"]
            assert [(part.node, part.resource_value) for part in resource.topology_aware_quantity_list] == [(1, 10)]
            request = pb.GetTopologyAwareAllocatableResourcesRequest()
            there = (await cpu.GetTopologyAwareAllocatableResources(request)).allocatable_resources["cpu"]
            assert (there.aggregated_capacity_quantity, there.aggregated_allocatable_quantity) == (80, 76)
            await cpu.PreStartContainer(pb.PreStartContainerRequest(pod_uid="pod1", container_name="main"))
            await cpu.RemovePod(pb.RemovePodRequest(pod_uid="pod1"))
            report = await cpu.GetResourcesAllocation(pb.GetResourcesAllocationRequest())
            assert set(report.pod_resources) == {"pod2"}


async def test_the_third_worked_example_over_grpc(plugins_dir: Path) -> None:
    async with _node(plugins_dir) as manager:
        await manager.admit("full", "storage-service", {"cpu": 38, "memory": 1e9})
        amounts = {"cpu": 10.0, "memory": 20e9, "NIC": 1.0}
        pods = [await manager.admit(uid, "numa-enhancement", amounts) for uid in ("pod1", "pod2")]
    assert [pod["cpu"].allocation_result for pod in pods] == ["42-51", "52-61"]
    assert [pod["memory"].allocation_result for pod in pods] == ["1", "1"]
    for pod in pods:
        assert pod["NIC"].envs == {"AFFINITY_NIC_ADDR_IPV6": "fdbd:dc05:3:155::20"}
        assert pod["NIC"].annotations == {"kubernetes.io/host-netns-path": "/var/run/netns/ns1"}
        assert (pod["NIC"].oci_property_name, pod["NIC"].is_scalar_resource) == ("", False)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"hint": pb.TopologyHint(nodes=[9])}, "NUMA node 9 is not of this machine"),
        ({"resource_requests": {"cpu": float("inf")}}, "resource_requests: inf is not allowed"),
        ({"resource_requests": {"cpu": -1}}, "resource_requests: -1 is not allowed"),
        ({"container_type": 9}, "container_type: 9 is unknown"),
        ({"annotations": {QOS_LEVEL: "gold"}}, "'gold' is not a valid QosLevel"),
    ],
)
async def test_a_manager_that_asks_for_what_cannot_be_is_told_why(
    plugins_dir: Path, wrong: dict[str, Any], why: str
) -> None:
    async with _node(plugins_dir) as manager, manager.plugin("cpu") as cpu:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await cpu.Allocate(pb.ResourceRequest(pod_uid="uid", container_name="main", **wrong))
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert why in (refusal.value.details() or "")


async def test_a_refusal_of_a_plugin_reaches_the_manager_with_its_sentence(plugins_dir: Path) -> None:
    async with _node(plugins_dir) as manager, manager.plugin("cpu") as cpu:
        request = pb.ResourceRequest(
            pod_uid="uid",
            container_name="main",
            container_type=pb.MAIN,
            resource_requests={"cpu": 90},
            annotations=BOUND,
        )
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await cpu.Allocate(request)
        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "90 are asked for" in (refusal.value.details() or "")


async def test_a_pod_as_a_whole_is_hinted_and_allocated(plugins_dir: Path) -> None:
    async with _node(plugins_dir) as manager, manager.plugin("cpu") as cpu:
        request = pb.PodResourceRequest(pod_uid="uid", resource_requests={"cpu": 4}, annotations=BOUND)
        hints = (await cpu.GetPodTopologyHints(request)).resource_hints["cpu"].hints
        assert [list(hint.nodes) for hint in hints if hint.preferred] == [[0], [1]]
        request.hint.CopyFrom(pb.TopologyHint(nodes=[1], preferred=True))
        allocated = (await cpu.AllocateForPod(request)).allocation_result.resource_allocation["cpu"]
        assert allocated.allocation_result == "42-45"


async def test_a_manager_that_refuses_or_is_not_there_is_named(plugins_dir: Path) -> None:
    cpu = _plugins()["cpu"]
    with pytest.raises(Unavailable, match="nothing accepts connections"):
        async with served(cpu, plugins_dir, NODES, seconds=0.1):
            pass
    async with ManagerDouble(plugins_dir, "taken").listening():
        with pytest.raises(Conflict, match="refused: FAILED_PRECONDITION: taken"):
            async with served(cpu, plugins_dir, NODES):
                pass


async def test_our_manager_finds_our_plugin_by_its_socket(plugins_dir: Path) -> None:
    directory = PluginDirectory(plugins_dir, ForeignBounds(NODES), FakeClock())
    async with served(_plugins()["NIC"], plugins_dir, NODES, registers=False):
        await directory.scan()
        assert directory.endpoints["NIC"].runs
    await directory.scan()
    assert not directory.endpoints["NIC"].runs
