"""examples/grpc_watch_offers.py against a real server that is killed and started again: nothing is missed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import anyio
import pytest
import pytest_asyncio
from tests.support.reports import described

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources

PATIENCE_SECONDS = 120.0
ROOT = Path(__file__).parents[3]
NODES = [f"node-{number}" for number in range(8)]


@pytest_asyncio.fixture
async def console(postgres_dsn: str, nats_url: str, tmp_path: Path) -> Mapping[str, str]:
    """The environment of a console on a database of its own, with a gRPC port that it keeps over restarts."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    dsn = urlunsplit(urlsplit(postgres_dsn)._replace(path="/test_grpc_" + new_id().replace("-", "")))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SLACKWATER_POSTGRES_DSN": dsn,
        "SLACKWATER_NATS_URL": nats_url,
        "SLACKWATER_STATE_DIR": str(tmp_path),
        "SLACKWATER_GRPC_PORT": str(port),
    }


@asynccontextmanager
async def process(environment: Mapping[str, str], *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@asynccontextmanager
async def serving(environment: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A console that says where it speaks gRPC."""
    async with process(environment, "-m", "slackwater.cli", "run", "console", "--port", "0") as server:
        assert server.stdout is not None
        with anyio.fail_after(PATIENCE_SECONDS):
            assert (await server.stdout.readline()).startswith(b"console http://")
            line = (await server.stdout.readline()).decode()
        assert line.strip() == f"grpc 127.0.0.1:{environment['SLACKWATER_GRPC_PORT']}"
        yield server


@dataclass
class Example:
    """What the example has said so far."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    generations: dict[str, int] = field(default_factory=dict)

    async def until(self, *beginning: str) -> None:
        """Read on until a line begins with these words."""
        assert self.process.stdout is not None
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                line = (await self.process.stdout.readline()).decode().strip()
                assert line, f"the example ended after {self.lines}"
                self.lines.append(line)
                words = line.split()
                if words[0] == "offer":
                    self.generations[words[1]] = int(words[2].removeprefix("generation="))
                if tuple(words[: len(beginning)]) == beginning:
                    return

    async def until_all_are_at(self, generation: int) -> None:
        while set(self.generations.values()) != {generation} or len(self.generations) < len(NODES):
            await self.until("offer")


async def offer(bus: NatsBus, generation: int) -> None:
    for node in NODES:
        now = datetime.now(UTC)
        data = ResourcesOffered(
            node=node,
            offered_at=now,
            generation=generation,
            batch=Resources(1000, 2**30),
            degraded=None,
            decision_ids={"batch-cpu": f"{node}-{generation}"},
        )
        await bus.publish(event_of(data, source="tests", time=now))


@pytest.mark.timeout(400)  # three consoles start, each at the lowest priority of all services
async def test_the_example_misses_nothing_when_the_server_is_killed_and_when_it_is_stopped(
    console: Mapping[str, str], bus: NatsBus
) -> None:
    for node in NODES:
        now = datetime.now(UTC)
        await bus.publish(event_of(described(node, now), source="tests", time=now))
    await offer(bus, 1)
    target = f"127.0.0.1:{console['SLACKWATER_GRPC_PORT']}"
    async with process(console, "examples/grpc_watch_offers.py", target) as following:
        example = Example(following)
        async with serving(console) as server:
            await example.until("snapshot", "SNAPSHOT_REASON_INITIAL")
            await example.until_all_are_at(1)
            await example.until("current", f"offers={len(NODES)}")
            server.send_signal(signal.SIGKILL)
            await example.until("broken", "UNAVAILABLE")
        await offer(bus, 2)
        await offer(bus, 3)
        async with serving(console) as server:
            await example.until_all_are_at(3)
            await example.until("current", f"offers={len(NODES)}")
            server.send_signal(signal.SIGTERM)
            await example.until("broken", "UNAVAILABLE")
            with anyio.fail_after(PATIENCE_SECONDS):
                assert await server.wait() == 0
        await offer(bus, 4)
        async with serving(console):
            await example.until_all_are_at(4)
    assert [line for line in example.lines if line.startswith("snapshot")] == ["snapshot SNAPSHOT_REASON_INITIAL"]
    assert len([line for line in example.lines if line.startswith("offer")]) == 3 * len(NODES)
