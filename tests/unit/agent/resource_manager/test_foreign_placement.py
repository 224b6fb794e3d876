"""Pods of the agent with resources of a plugin of another process: over a real socket, with every way it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from plugin_double import NIC, SHORT, PluginDouble, allocation, plugin_at
from structlog.testing import capture_logs
from tests.support.clock import FakeClock

from slackwater.agent.adapters.placement_files import JsonPlacements, read_placements
from slackwater.agent.adapters.resource_plugins.directory import PluginDirectory
from slackwater.agent.adapters.resource_plugins.placement import remote_plugins
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import Rpc
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.pools import PoolDemand, PoolRules
from slackwater.model.pods import LABEL_NUMA_BOUND, RESOURCE_LABEL, Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.v1.plugins import resource_plugin_pb2 as pb

MACHINE = CpuMachine(tuple(Cpu(cpu, cpu, cpu // 4, cpu // 4, cpu // 4) for cpu in range(8)))
RESERVED = frozenset({0})
LABEL = f"{RESOURCE_LABEL}example.com.nic"


def _pod(uid: str, amount: str | None = "1", qos: QoSClass = QoSClass.LSR, *, is_bound: bool = False) -> Pod:
    labels = {} if amount is None else {LABEL: amount}
    labels |= {LABEL_NUMA_BOUND: "true"} if is_bound else {}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Pod(uid, uid, "default", uid, Tier.PROD, qos, 9500, Resources(1000, 1 << 20), now, labels)


@dataclass
class Node:
    """The placement of an agent. `pods` run, `arriving` wait for their answer."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    pods: list[Pod] = field(default_factory=list)
    arriving: list[Pod] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    remote: PluginDirectory = field(init=False)
    placing: PlacePods = field(init=False)

    def __post_init__(self) -> None:
        demand = PoolDemand(reserved=RESERVED, rules=PoolRules(partitioned=False, ramp_seconds=0.0))
        cpu = CpuPlugin(MACHINE, demand, CpuPluginRules(refuses_overcommitted=False))
        memory = MemoryPlugin([MemoryNode(0, 0, 1 << 30), MemoryNode(1, 1, 1 << 30)])
        self.remote = remote_plugins(self.folder, cpu, memory, self.clock)
        self.remote.timeouts, self.remote.dial_seconds, self.remote.probe_seconds = SHORT, 0.5, 0.3
        files = JsonPlacements(self.folder)
        self.placing = PlacePods(cpu, memory, files, self.clock, lambda: self.arriving, lambda uid: "0-7")
        self.placing.remote, self.placing.spawn = self.remote, self._spawn

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(coroutine))

    async def turn(self) -> dict[str, Any]:
        """One tick, with all that it waits for; returns the published answer."""
        await self.clock.advance(3)
        self.placing.update(self.pods)
        await asyncio.gather(*self.tasks)
        self.placing.publish()
        self._check()
        return read_placements(self.folder) or {}

    def _check(self) -> None:
        """Exclusive CPUs are never shared, reserved ones never given, whatever a plugin did."""
        owned: set[int] = set()
        for uid, cpuset in self.placing.cpusets.items():
            cpus = parse_cpu_list(cpuset.cpus)
            assert not cpus & RESERVED
            if self.placing._kind(uid) == "dedicated":
                assert not cpus & owned
                owned |= cpus
        for uid, cpuset in self.placing.cpusets.items():
            if self.placing._kind(uid) != "dedicated":
                assert not parse_cpu_list(cpuset.cpus) & owned


@asynccontextmanager
async def _node(folder: Path, plugin: PluginDouble) -> AsyncIterator[Node]:
    node = Node(folder)
    async with plugin_at(folder / "nic.sock", plugin, is_found=True):
        await node.remote.scan()
        assert node.remote.endpoints[NIC].runs
        plugin.asked.clear()
        yield node


async def test_a_pod_gets_what_it_asks_a_plugin_for_and_its_environment(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        node.arriving = [_pod("lsr", is_bound=True), _pod("plain", None)]
        answer = await node.turn()
        assert answer["pods"]["lsr"]["envs"] == {"NIC": "eth1"}
        assert parse_cpu_list(answer["pods"]["lsr"]["cpus"]) <= {4, 5, 6, 7}, "near to its interface"
        assert answer["pods"]["plain"]["envs"] == {}
        asked = [request for rpc, request in plugin.asked if rpc is Rpc.ALLOCATE]
        assert [(request.pod_uid, request.resource_requests[NIC]) for request in asked] == [("lsr", 1.0)]
        node.arriving = []
        await node.turn()
        assert plugin.held == {}, "it is told of the end"


async def test_sampling_goes_on_while_a_plugin_is_asked_and_nothing_is_published_before(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        node.arriving = [_pod("lsr")]
        node.placing.update([])
        for _ in range(3):
            node.placing.update([])
            node.placing.publish()
        assert read_placements(plugins_dir) is None
        await asyncio.gather(*node.tasks)
        assert len(node.tasks) == 1
        node.placing.publish()
        assert "lsr" in (read_placements(plugins_dir) or {})["pods"]


@pytest.mark.parametrize("rpc", [Rpc.HINTS, Rpc.ALLOCATE])
async def test_a_plugin_that_hangs_refuses_a_dedicated_pod_and_leaves_the_others(plugins_dir: Path, rpc: Rpc) -> None:
    async with _node(plugins_dir, PluginDouble(hangs={rpc})) as node:
        node.arriving = [_pod("lsr"), _pod("plain", None), _pod("web", qos=QoSClass.LS)]
        answer = await node.turn()
        if rpc is Rpc.ALLOCATE:
            assert "did not answer within 0.3 s" in answer["refused"]["lsr"]
            assert "lsr" not in answer["pods"]
        assert {"plain", "web"} <= answer["pods"].keys(), "a shared pod starts without it, and the others as ever"


async def test_a_plugin_that_vanishes_between_hints_and_allocate_leaves_nothing_behind(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    node = Node(plugins_dir)
    async with plugin_at(plugins_dir / "nic.sock", plugin, is_found=True) as server:
        await node.remote.scan()
        stopping: list[asyncio.Task[None]] = []
        plugin.after = lambda rpc: stopping.append(asyncio.create_task(server.stop(0))) if rpc is Rpc.HINTS else None
        node.arriving = [_pod("lsr")]
        answer = await node.turn()
        assert NIC in answer["refused"]["lsr"]
        assert answer["pods"] == {}
        assert node.placing.cpu.holders == {}, "its CPUs were given back"
    await node.remote.scan()
    assert not node.remote.endpoints[NIC].runs
    node.arriving = [_pod("plain", None)]
    assert "plain" in (await node.turn())["pods"]


LIES = {
    "a cpuset of the agent's": allocation(oci_property_name="CpusetCpus", allocation_result="0-7"),
    "an accompanying cpu": allocation("cpu", oci_property_name="CpusetCpus", allocation_result="0"),
    "less than nothing": allocation(allocated_quantity=-1),
    "an unknown property": allocation(oci_property_name="Rlimits"),
    "a hint outside": allocation(resource_hints={"hints": [{"nodes": [99]}]}),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_plugin_that_lies_gets_nothing_of_the_agents(plugins_dir: Path, lie: str) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        node.arriving = [_pod("owner", None)]
        await node.turn()
        plugin.answers[Rpc.ALLOCATE] = pb.ResourceAllocationResponse(allocation_result=LIES[lie])
        node.arriving.append(_pod("lsr"))
        answer = await node.turn()
        assert "Allocate at nic.sock" in answer["refused"]["lsr"]
        assert set(answer["pods"]) == {"owner"}


async def test_a_plugin_that_lies_in_its_report_changes_nothing(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        node.arriving = [_pod("lsr")]
        before = (await node.turn())["pods"]
        plugin.held["lsr", "main"] = allocation("cpu", oci_property_name="CpusetCpus", allocation_result="0-7")
        assert (await node.turn())["pods"] == before


async def test_a_plugin_that_comes_back_at_another_socket_goes_on(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with _node(plugins_dir, plugin) as node:
        node.arriving = [_pod("a")]
        await node.turn()
    await node.remote.scan()
    node.arriving.append(_pod("b"))
    answer = await node.turn()
    assert answer["pods"]["a"]["envs"] == {"NIC": "eth1"}, "what is allocated stays"
    assert "has been stopped" in answer["refused"]["b"]
    async with plugin_at(plugins_dir / "again.sock", plugin, is_found=True):
        await node.remote.scan()
        node.arriving = [_pod("a"), _pod("c")]
        answer = await node.turn()
        assert set(answer["pods"]) == {"a", "c"}


async def test_after_a_restart_of_the_agent_a_plugins_allocation_is_there_and_its_plugin_is_expected(
    plugins_dir: Path,
) -> None:
    async with _node(plugins_dir, PluginDouble()) as node:
        node.arriving = [_pod("a")]
        await node.turn()
    again = Node(plugins_dir, pods=[_pod("a")])
    answer = await again.turn()
    assert answer["pods"]["a"]["envs"] == {"NIC": "eth1"}
    assert not again.remote.endpoints[NIC].runs


@pytest.mark.parametrize("amount", ["many", "-1", "nan", "inf", "1e300"])
async def test_a_label_that_is_no_amount_refuses_the_pod(plugins_dir: Path, amount: str) -> None:
    async with _node(plugins_dir, PluginDouble()) as node:
        node.arriving = [_pod("lsr", amount)]
        answer = await node.turn()
    assert answer["refused"]["lsr"] == f"{LABEL}: {amount!r} is no amount of a resource"


async def test_a_plugin_that_went_counts_at_once_and_not_at_the_next_turn(plugins_dir: Path) -> None:
    async with _node(plugins_dir, PluginDouble()) as node:
        await node.turn()
        assert node.placing.manager.endpoints[NIC].runs
    await node.remote.scan()
    node.placing.update(node.pods)
    assert not node.placing.manager.endpoints[NIC].runs


async def test_values_that_contradict_are_said_with_the_pod(plugins_dir: Path) -> None:
    second = pb.ResourceAllocationInfo(allocated_quantity=1, is_scalar_resource=True, envs={"NIC": "eth0"})
    held = allocation()
    held.resource_allocation["example.com/nic-2"].CopyFrom(second)
    answer = pb.ResourceAllocationResponse(allocation_result=held)
    async with _node(plugins_dir, PluginDouble(answers={Rpc.ALLOCATE: answer})) as node:
        node.arriving = [_pod("lsr")]
        with capture_logs() as lines:
            await node.turn()
    (line,) = [line for line in lines if line["event"] == "resources contradict"]
    assert (line["pod"], line["container"]) == ("lsr", "main")
    assert line["conflict"] == "environment NIC: example.com/nic-2 sets 'eth0', and 'eth1' counts"
