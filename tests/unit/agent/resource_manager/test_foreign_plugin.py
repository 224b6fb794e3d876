"""A plugin of another process over a real unix socket: each RPC, what it may not answer, and what ends in time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from plugin_double import BOUNDS, NIC, PluginDouble, allocation, connected

from slackwater.agent.adapters.resource_plugins.connection import LARGEST_MESSAGE, PluginConnection
from slackwater.agent.domain.resource_manager.messages import (
    TIMEOUT_SECONDS,
    Allocation,
    ContainerType,
    HeldResource,
    PluginCall,
    PluginFailure,
    ResourceRequest,
    Rpc,
)
from slackwater.kernels.topology.hints import Hint
from slackwater.model.errors import InvalidInput, SlackwaterError, Unavailable
from slackwater.v1.plugins import resource_plugin_pb2 as pb

REQUEST = ResourceRequest(
    "uid",
    NIC,
    {NIC: 1.5},
    "default",
    "web",
    "main",
    ContainerType.SIDECAR,
    2,
    "role",
    "type",
    Hint(0b10, preferred=True),
    {"label": "a"},
    {"annotation": "b"},
    "Guaranteed",
)


async def test_a_request_arrives_in_every_field(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with connected(plugins_dir, plugin) as connection:
        await connection.ask(Rpc.ALLOCATE, REQUEST)
        await connection.ask(Rpc.ALLOCATE_FOR_POD, REQUEST)
    (_, asked), (_, of_pod) = plugin.asked
    assert asked == pb.ResourceRequest(
        pod_uid="uid",
        pod_namespace="default",
        pod_name="web",
        container_name="main",
        container_type=pb.ContainerType.SIDECAR,
        container_index=2,
        pod_role="role",
        pod_type="type",
        resource_name=NIC,
        hint=pb.TopologyHint(nodes=[1], preferred=True),
        resource_requests={NIC: 1.5},
        labels={"label": "a"},
        annotations={"annotation": "b"},
        native_qos_class="Guaranteed",
    )
    assert (of_pod.pod_uid, of_pod.hint.nodes, of_pod.resource_requests) == ("uid", [1], {NIC: 1.5})


async def test_each_rpc_answers_in_the_managers_form(plugins_dir: Path) -> None:
    async with connected(plugins_dir, PluginDouble()) as connection:
        options = await connection.options()
        assert (options.pre_start_required, options.with_topology_alignment, options.need_reconcile) == (0, 1, 1)
        for rpc in (Rpc.HINTS, Rpc.POD_HINTS):
            assert await connection.ask(rpc, REQUEST) == {NIC: [Hint(0b10, preferred=True)]}
        allocated = {NIC: Allocation("", 1.0, "", envs={"NIC": "eth1"})}
        for rpc in (Rpc.ALLOCATE, Rpc.ALLOCATE_FOR_POD):
            assert await connection.ask(rpc, REQUEST) == allocated
        assert await connection.ask(Rpc.ALLOCATIONS) == {("uid", "main"): allocated}
        assert await connection.ask(Rpc.AWARE, ("uid", "main")) == {
            NIC: HeldResource(1.0, {1: 1.0}, is_node=False, is_scalar=False)
        }
        assert (await connection.ask(Rpc.ALLOCATABLE))[NIC].capacity == 4.0
        assert await connection.ask(Rpc.PRE_START, REQUEST) is None
        assert await connection.ask(Rpc.REMOVE, "uid") is None
        assert await connection.ask(Rpc.ALLOCATIONS) == {}


def _hints(*nodes: int) -> pb.ResourceHintsResponse:
    listed = pb.ListOfTopologyHints(hints=[pb.TopologyHint(nodes=nodes)])
    return pb.ResourceHintsResponse(resource_hints={NIC: listed})


def _allocated(resource: str = NIC, **info: Any) -> pb.ResourceAllocationResponse:
    return pb.ResourceAllocationResponse(allocation_result=allocation(resource, **info))


LIES = (
    (Rpc.HINTS, _hints(2), "NUMA node 2 is not of this machine"),
    (Rpc.HINTS, _hints(1 << 63), "is not of this machine"),
    (Rpc.HINTS, pb.ResourceHintsResponse(pod_uid="other"), "'other' is answered for 'uid'"),
    (Rpc.ALLOCATE, _allocated(allocated_quantity=-1), "allocated_quantity: -1 is not allowed"),
    (Rpc.ALLOCATE, _allocated(allocated_quantity=float("nan")), "allocated_quantity: nan is not allowed"),
    (Rpc.ALLOCATE, _allocated(allocated_quantity=1e300), "allocated_quantity: 1e+300 is not allowed"),
    (Rpc.ALLOCATE, _allocated(oci_property_name="CpusetCPUs"), "oci_property_name: 'CpusetCPUs'; allowed"),
    (Rpc.ALLOCATE, _allocated(oci_property_name="CpusetCpus", allocation_result="0"), "set by a plugin of the agent"),
    (Rpc.ALLOCATE, _allocated(oci_property_name="CpuShares", allocation_result="many"), "is no whole number"),
    (Rpc.ALLOCATE, _allocated("cpu"), "cpu: has a plugin of its own"),
    (Rpc.ALLOCATE, _allocated(envs={"A=B": "c"}), "envs: 'A=B' is no name"),
    (Rpc.ALLOCATE, _allocated(envs={str(n): "" for n in range(100)}), "envs: 100 are answered; at most 64"),
    (Rpc.ALLOCATE, _allocated(resource_hints=_hints(7).resource_hints[NIC]), "NUMA node 7 is not of this machine"),
)


@pytest.mark.parametrize(("rpc", "answer", "why"), LIES, ids=[why for _, _, why in LIES])
async def test_an_answer_that_is_not_allowed_is_refused_by_name(
    plugins_dir: Path, rpc: Rpc, answer: Any, why: str
) -> None:
    async with connected(plugins_dir, PluginDouble(answers={rpc: answer})) as connection:
        with pytest.raises(InvalidInput) as refusal:
            await connection.ask(rpc, REQUEST)
        assert why in refusal.value.message
        assert refusal.value.message.startswith(f"{NIC}: {rpc} at nic.sock: ")
        assert await connection.answer(PluginCall(NIC, rpc, REQUEST)) == PluginFailure(refusal.value.message)


async def test_more_than_there_is_cannot_be_allocated(plugins_dir: Path) -> None:
    plugin = PluginDouble(answers={Rpc.ALLOCATE: _allocated(allocated_quantity=5)})
    async with connected(plugins_dir, plugin) as connection:
        await connection.ask(Rpc.ALLOCATABLE)
        with pytest.raises(InvalidInput, match="between 0 and 4"):
            await connection.ask(Rpc.ALLOCATE, REQUEST)


async def test_a_cpuset_without_a_plugin_of_ours_is_within_the_cpus_that_may_be_given(plugins_dir: Path) -> None:
    bounds = replace(BOUNDS, properties=frozenset(), resources=frozenset(), cpus=frozenset(range(2, 8)))
    answers = {Rpc.ALLOCATE: _allocated("cpu", oci_property_name="CpusetCpus", allocation_result="1-3")}
    async with connected(plugins_dir, PluginDouble("cpu", answers), bounds) as connection:
        with pytest.raises(InvalidInput, match="CpusetCpus: '1-3' is not among those to allocate"):
            await connection.ask(Rpc.ALLOCATE, replace(REQUEST, resource="cpu"))


async def test_one_wrong_entry_refuses_a_whole_report(plugins_dir: Path) -> None:
    plugin = PluginDouble(held={("a", "main"): allocation(), ("b", "main"): allocation(allocated_quantity=-2)})
    async with connected(plugins_dir, plugin) as connection:
        with pytest.raises(InvalidInput, match="allocated_quantity: -2"):
            await connection.ask(Rpc.ALLOCATIONS)


@pytest.mark.parametrize("rpc", sorted(set(Rpc)))
async def test_a_plugin_that_hangs_ends_each_call_in_time(plugins_dir: Path, rpc: Rpc) -> None:
    plugin = PluginDouble(hangs=set(Rpc))
    async with connected(plugins_dir, plugin) as connection:
        request: Any = {Rpc.REMOVE: "uid", Rpc.AWARE: ("uid", "main")}.get(rpc, REQUEST)
        with pytest.raises(Unavailable, match=r"did not answer within 0\.3 s"):
            await connection.ask(rpc, request)
        with pytest.raises(Unavailable, match="does not answer"):
            await connection.ask(rpc, request)
        assert len(plugin.asked) == 1, "the next call does not wait again"
        plugin.hangs.clear()
        assert await connection.probe(1.0)
        await connection.ask(rpc, request)


def test_the_timeouts_are_the_published_ones() -> None:
    assert {rpc: seconds for rpc, seconds in TIMEOUT_SECONDS.items() if seconds != 10.0} == {Rpc.PRE_START: 30.0}


async def test_a_socket_at_which_nothing_listens_is_named(plugins_dir: Path) -> None:
    connection = PluginConnection(NIC, plugins_dir / "nic.sock", BOUNDS)
    with pytest.raises(Unavailable, match=r"nic\.sock: nothing accepts connections within 0\.1 s"):
        await connection.dial(0.1)
    await connection.close()


async def _raw(folder: Path, answer: bytes) -> PluginFailure:
    """The failure of a plugin that answers Allocate with these bytes."""

    async def allocate(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return answer

    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    method = grpc.unary_unary_rpc_method_handler(allocate)
    service = "resourceplugin.v1alpha1.ResourcePlugin"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Allocate": method}),))
    server.add_insecure_port(f"unix:{folder}/nic.sock")
    await server.start()
    connection = PluginConnection(NIC, folder / "nic.sock", BOUNDS)
    failure = await connection.answer(PluginCall(NIC, Rpc.ALLOCATE, REQUEST))
    await connection.close()
    await server.stop(0)
    assert isinstance(failure, PluginFailure)
    return failure


@pytest.mark.parametrize("answer", [b"\x0a\x02\xff\xfe", b"\x0a\xff", b"not a message"])
async def test_bytes_that_are_no_message_are_refused(plugins_dir: Path, answer: bytes) -> None:
    assert "answered what is no message" in (await _raw(plugins_dir, answer)).reason


async def test_an_answer_larger_than_the_bound_is_not_read(plugins_dir: Path) -> None:
    assert "larger than max" in (await _raw(plugins_dir, b"\x0a" + bytes(LARGEST_MESSAGE + 1))).reason


async def test_a_plugin_that_breaks_is_named_with_its_status(plugins_dir: Path) -> None:
    answers: dict[Rpc, Any] = {Rpc.ALLOCATE: grpc.StatusCode.INTERNAL}
    async with connected(plugins_dir, PluginDouble(answers=answers)) as connection:
        with pytest.raises(SlackwaterError, match=r"the plugin at nic.sock refused: UNKNOWN"):
            await connection.ask(Rpc.ALLOCATE, REQUEST)


async def test_a_plugin_that_goes_during_a_call_is_named(plugins_dir: Path) -> None:
    plugin = PluginDouble(hangs={Rpc.ALLOCATE})
    async with connected(plugins_dir, plugin, timeouts=TIMEOUT_SECONDS) as connection:
        call = asyncio.create_task(connection.answer(PluginCall(NIC, Rpc.ALLOCATE, REQUEST)))
        while not plugin.asked:
            await asyncio.sleep(0.01)
        await connection.close()
        assert isinstance(await call, PluginFailure)
