"""The directory of plugins on real unix sockets: registration, discovery, ends and the grace after them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from plugin_double import BOUNDS, NIC, SHORT, PluginDouble, plugin_at, registers
from tests.support.clock import FakeClock

from slackwater.agent.adapters.resource_plugins.directory import PluginDirectory
from slackwater.agent.domain.resource_manager.endpoints import GRACE_SECONDS, PluginEndpoint
from slackwater.agent.domain.resource_manager.messages import NO_OPTIONS, PluginCall, PluginFailure, Rpc
from slackwater.agent.domain.resource_manager.plugin_sockets import SocketChanges, socket_changes
from slackwater.model.errors import Misconfigured

ALLOCATIONS = PluginCall(NIC, Rpc.ALLOCATIONS)


def _directory(folder: Path, clock: FakeClock | None = None) -> PluginDirectory:
    return PluginDirectory(folder, BOUNDS, clock or FakeClock(), timeouts=SHORT, dial_seconds=0.5, probe_seconds=0.3)


@asynccontextmanager
async def _running(directory: PluginDirectory) -> AsyncIterator[PluginDirectory]:
    """The directory at work; scans are the test's, because the clock stands."""
    task = asyncio.create_task(directory.run())
    while not (directory.folder / "kubelet.sock").exists() and not task.done():
        await asyncio.sleep(0.01)
    try:
        yield directory
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _refused(folder: Path, **wrong: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await registers(folder, **wrong)
    return refusal.value.code(), refusal.value.details() or ""


async def test_a_plugin_registers_at_the_managers_socket_and_is_asked(plugins_dir: Path) -> None:
    async with _running(_directory(plugins_dir)) as directory, plugin_at(plugins_dir / "nic.sock", PluginDouble()):
        await registers(plugins_dir)
        endpoint = directory.endpoints[NIC]
        assert (endpoint.socket, endpoint.runs, endpoint.options.need_reconcile) == ("nic.sock", True, True)
        assert await directory.answer(ALLOCATIONS) == {}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"version": "v1beta1"}, "version: 'v1beta1' is not supported; allowed: v1alpha1"),
        ({"resource": "no name"}, "resource_name: 'no name' is no name"),
        ({"endpoint": "../nic.sock"}, "is no name of a file in the directory of plugins"),
        ({"endpoint": "absent.sock"}, "'absent.sock' is no socket in"),
        ({"endpoint": "kubelet.sock"}, "'kubelet.sock' is no socket in"),
    ],
)
async def test_a_registration_that_is_not_allowed_is_refused_by_name(
    plugins_dir: Path, wrong: dict[str, str], why: str
) -> None:
    async with _running(_directory(plugins_dir)), plugin_at(plugins_dir / "nic.sock", PluginDouble()):
        code, details = await _refused(plugins_dir, **wrong)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert why in details


async def test_a_socket_that_nothing_serves_is_refused(plugins_dir: Path) -> None:
    async with _running(_directory(plugins_dir)):
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(plugins_dir / "nic.sock"))
            silent.listen()
            assert (await _refused(plugins_dir))[0] is grpc.StatusCode.UNAVAILABLE


async def test_a_second_plugin_is_refused_while_the_first_lives(plugins_dir: Path) -> None:
    async with (
        _running(_directory(plugins_dir)) as directory,
        plugin_at(plugins_dir / "second.sock", PluginDouble()),
    ):
        async with plugin_at(plugins_dir / "nic.sock", PluginDouble()) as first:
            await registers(plugins_dir)
            code, details = await _refused(plugins_dir, endpoint="second.sock")
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert details == f"resource_name: {NIC} has a plugin that runs, at nic.sock; end it first"
            await registers(plugins_dir)  # the first may say it again
            await first.stop(0)
            await registers(plugins_dir, endpoint="second.sock")
        assert directory.endpoints[NIC].socket == "second.sock"


async def test_a_plugin_that_hangs_and_keeps_its_socket_gives_way_to_another(plugins_dir: Path) -> None:
    stuck = PluginDouble(hangs=set(Rpc))
    async with (
        _running(_directory(plugins_dir)) as directory,
        plugin_at(plugins_dir / "nic.sock", stuck),
        plugin_at(plugins_dir / "second.sock", PluginDouble()),
    ):
        await registers(plugins_dir)
        await registers(plugins_dir, endpoint="second.sock")
        assert directory.endpoints[NIC].socket == "second.sock"


async def test_a_resource_of_the_agent_itself_is_never_given_away(plugins_dir: Path) -> None:
    directory = _directory(plugins_dir)
    directory.endpoints = {"cpu": PluginEndpoint("cpu", NO_OPTIONS)}
    async with _running(directory), plugin_at(plugins_dir / "nic.sock", PluginDouble("cpu")):
        _, details = await _refused(plugins_dir, resource="cpu")
        assert details == "resource_name: cpu has a plugin that runs, at this process; end it first"


async def test_after_a_restart_of_the_agent_a_plugin_is_found_by_its_socket(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    async with plugin_at(plugins_dir / "nic.sock", plugin, is_found=True):
        for _ in range(2):
            directory = _directory(plugins_dir)
            directory.expect({NIC})
            assert not directory.endpoints[NIC].runs
            await directory.scan()
            assert directory.endpoints[NIC].runs
            assert plugin.status is not None
            assert plugin.status.plugin_registered
            assert await directory.answer(ALLOCATIONS) == {}


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"versions": ("v1",)}, "version: 'v1' is not supported; allowed: v1alpha1"),
        ({"kind": "DevicePlugin"}, "type: 'DevicePlugin' is not ResourcePlugin"),
    ],
)
async def test_a_plugin_that_is_found_and_not_allowed_is_told_why(
    plugins_dir: Path, info: dict[str, Any], why: str
) -> None:
    plugin = PluginDouble()
    async with plugin_at(plugins_dir / "nic.sock", plugin, is_found=True, **info):
        directory = _directory(plugins_dir)
        await directory.scan()
    assert directory.endpoints == {}
    assert plugin.status is not None
    assert (plugin.status.plugin_registered, plugin.status.error) == (False, why)


async def test_a_plugin_that_ends_has_five_minutes_to_come_back(plugins_dir: Path) -> None:
    clock = FakeClock()
    directory = _directory(plugins_dir, clock)
    async with plugin_at(plugins_dir / "nic.sock", PluginDouble(), is_found=True):
        await directory.scan()
    await directory.scan()
    assert not directory.endpoints[NIC].runs
    assert await directory.answer(ALLOCATIONS) == PluginFailure(f"endpoint {NIC} has been stopped")
    await clock.advance(GRACE_SECONDS - 1)
    await directory.scan()
    assert NIC in directory.endpoints
    async with plugin_at(plugins_dir / "other.sock", PluginDouble(), is_found=True):
        await directory.scan()
        assert (directory.endpoints[NIC].socket, directory.endpoints[NIC].runs) == ("other.sock", True)
    await directory.scan()
    await clock.advance(GRACE_SECONDS)
    await directory.scan()
    assert directory.endpoints == {}


async def test_a_plugin_that_was_killed_leaves_its_socket_and_is_ended(plugins_dir: Path) -> None:
    directory = _directory(plugins_dir)
    async with plugin_at(plugins_dir / "nic.sock", PluginDouble(), is_found=True) as server:
        await directory.scan()
        os.link(plugins_dir / "nic.sock", plugins_dir / "kept")
        await server.stop(0)
        (plugins_dir / "kept").rename(plugins_dir / "nic.sock")
        await directory.scan()
        assert not directory.endpoints[NIC].runs


async def test_a_plugin_that_restarts_at_the_same_name_is_another_one(plugins_dir: Path) -> None:
    directory = _directory(plugins_dir)
    for _ in range(2):
        plugin = PluginDouble()
        async with plugin_at(plugins_dir / "nic.sock", plugin, is_found=True):
            await directory.scan()
            assert directory.endpoints[NIC].runs
            assert await directory.answer(ALLOCATIONS) == {}
            assert plugin.asked[-1][0] is Rpc.ALLOCATIONS


async def test_a_silent_plugin_is_asked_again_when_it_answers(plugins_dir: Path) -> None:
    plugin = PluginDouble()
    directory = _directory(plugins_dir)
    async with plugin_at(plugins_dir / "nic.sock", plugin, is_found=True):
        await directory.scan()
        plugin.hangs = set(Rpc)
        assert isinstance(await directory.answer(ALLOCATIONS), PluginFailure)
        await directory.scan()
        assert directory.endpoints[NIC].runs, "it holds its connection"
        plugin.hangs = set()
        await directory.scan()
        assert await directory.answer(ALLOCATIONS) == {}


async def test_files_that_are_no_sockets_are_left_alone(plugins_dir: Path) -> None:
    (plugins_dir / "kubelet_qrm_checkpoint").write_text("{}")
    (plugins_dir / "folder").mkdir()
    async with _running(_directory(plugins_dir)) as directory:
        await directory.scan()
        assert directory.endpoints == {}
    assert (plugins_dir / "kubelet_qrm_checkpoint").read_text() == "{}"


async def test_beside_another_manager_the_directory_is_refused(plugins_dir: Path) -> None:
    async with _running(_directory(plugins_dir)):
        with pytest.raises(Misconfigured, match="another manager listens at"):
            await _directory(plugins_dir).listen()


async def test_a_directory_that_others_may_write_to_is_refused(plugins_dir: Path) -> None:
    plugins_dir.chmod(0o777)
    with pytest.raises(Misconfigured, match="other users may write to it"):
        await _directory(plugins_dir).listen()


async def test_a_directory_with_a_path_too_long_for_a_socket_is_refused(plugins_dir: Path) -> None:
    with pytest.raises(Misconfigured, match="a socket's path has at most 107"):
        await _directory(plugins_dir / ("a" * 100)).listen()


def test_changes_of_a_directory_are_what_went_and_what_came() -> None:
    before = {"a": (1, 1), "b": (2, 1), "c": (3, 1)}
    after = {"b": (2, 1), "c": (3, 2), "d": (4, 1)}
    assert socket_changes(before, after) == SocketChanges(("a", "c"), ("c", "d"))
    assert socket_changes(after, after) == SocketChanges()
