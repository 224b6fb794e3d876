"""examples/resource_plugin.py as a process of its own: it registers, allocates, releases, and outlives the agent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.clock import FakeClock

from slackwater.agent.adapters.resource_plugins.directory import PluginDirectory
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.messages import PluginCall, PluginFailure, ResourceRequest, Rpc

ROOT = Path(__file__).parents[4]
SEAT = "example.com/seat"


@asynccontextmanager
async def _example(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, str(ROOT / "examples" / "resource_plugin.py"), str(folder), "--seats", "3"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        await process.communicate()


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@asynccontextmanager
async def _agent(folder: Path) -> AsyncIterator[PluginDirectory]:
    directory = PluginDirectory(folder, ForeignBounds(frozenset({0})), FakeClock())
    task = asyncio.create_task(directory.run())
    try:
        yield directory
    finally:
        task.cancel()
        await asyncio.wait([task])


def _allocate(uid: str, seats: float) -> PluginCall:
    return PluginCall(SEAT, Rpc.ALLOCATE, ResourceRequest(uid, SEAT, {SEAT: seats}, container="main"))


async def test_the_example_registers_allocates_and_releases(plugins_dir: Path) -> None:
    async with _agent(plugins_dir) as directory, _example(plugins_dir) as process:
        assert await _line(process) == "registered"
        allocated = await directory.answer(_allocate("a", 2))
        assert await _line(process) == "allocated a main 0 1"
        assert allocated[SEAT].envs == {"LICENCE_SEATS": "0,1"}
        refused = await directory.answer(_allocate("b", 2))
        assert isinstance(refused, PluginFailure)
        assert refused.reason.endswith("2 seats are asked for and 1 are free")
        assert (await directory.answer(PluginCall(SEAT, Rpc.ALLOCATABLE)))[SEAT].capacity == 3.0
        assert set(await directory.answer(PluginCall(SEAT, Rpc.ALLOCATIONS))) == {("a", "main")}
        assert await directory.answer(PluginCall(SEAT, Rpc.REMOVE, "a")) is None
        assert await _line(process) == "released a main 0 1"


async def test_the_example_registers_again_with_an_agent_that_was_started_again(plugins_dir: Path) -> None:
    async with _example(plugins_dir) as process:
        for _ in range(2):
            async with _agent(plugins_dir) as directory:
                assert await _line(process) == "registered"
                assert directory.endpoints[SEAT].runs
