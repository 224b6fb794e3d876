"""A resource plugin beside a real agent: a command starts with what the plugin of another process gave it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_machine import REPOSITORY, Machine, until

SEAT = "example.com/seat"
FLAGS = ("--cpu", "100m", "--label", "resource.slackwater.io/example.com.seat=2")


@pytest.fixture
def plugins_dir() -> Iterator[Path]:
    """The path of a unix socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        yield Path(folder)


def _output(process: subprocess.Popen[bytes]) -> str:
    return process.communicate(timeout=120)[0].decode().strip()


async def test_a_command_starts_with_the_environment_of_a_plugin(machine: Machine, plugins_dir: Path) -> None:
    example = [sys.executable, str(REPOSITORY / "examples" / "resource_plugin.py"), str(plugins_dir), "--seats", "2"]
    async with machine.agent(resource_plugins_dir=plugins_dir) as service:
        assert service.placement is not None
        if service.placement.off:
            pytest.skip(service.placement.off)
        remote = service.placement.remote
        assert remote is not None
        plugin = await asyncio.create_subprocess_exec(*example, stdout=subprocess.DEVNULL)
        try:
            await until(lambda: SEAT in remote.endpoints)
            for _ in range(2):  # the seats of the first are free again
                command = machine.execute("sh", "-c", "echo seats $LICENCE_SEATS", tier="prod", flags=FLAGS, piped=True)
                await until(lambda: command.poll() is not None)  # noqa: B023 - awaited in its turn
                assert _output(command) == "seats 0,1"
                await until(lambda: not service.driver.pods())
        finally:
            plugin.terminate()
            await plugin.wait()
