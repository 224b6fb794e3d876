"""Runs a broker, a database and services as separate processes, as deployed, for one measurement."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import processes

from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.service_list import service_names
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database

SERVICES = service_names()
_START_SECONDS = 60.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class ControlPlane:
    """The running processes and their addresses."""

    nats_url: str
    postgres_dsn: str
    addresses: Mapping[str, str]
    pids: dict[str, int]
    urls: dict[str, str] = field(default_factory=dict)

    def read(self) -> dict[str, processes.Reading]:
        return processes.read(self.pids)


@asynccontextmanager
async def control_plane(
    directory: Path, services: Sequence[str] = SERVICES, settings: Mapping[str, str] | None = None
) -> AsyncIterator[ControlPlane]:
    """Runs servers with fsync enabled, and the services, while the context is open."""
    async with AsyncExitStack() as stack:
        postgres = EmbeddedPostgres(directory / "postgres")
        postgres.start()
        stack.callback(postgres.stop)
        nats = EmbeddedNats(directory / "nats")
        await nats.start()
        stack.push_async_callback(nats.stop)
        addresses = await prepare_database(
            postgres.dsn, [Schema.of(name) for name in dict.fromkeys((*SERVICES, *services))]
        )
        pids = {"nats": nats.pid or 0, "postgres": _postmaster(directory / "postgres")}
        plane = ControlPlane(nats.url, postgres.dsn, addresses, pids)
        environment = os.environ | {"SLACKWATER_STATE_DIR": str(directory / "state")} | dict(settings or {})
        for name in services:
            plane.urls[name] = await stack.enter_async_context(replica(name, name, plane, environment))
        yield plane


@asynccontextmanager
async def replica(name: str, label: str, plane: ControlPlane, environment: Mapping[str, str]) -> AsyncIterator[str]:
    """Runs one service as the process `label` of the plane; yields its URL. The process may be killed meanwhile."""
    command = [sys.executable, "-m", "slackwater.cli", "run", name, "--port", "0"]
    addresses = {"SLACKWATER_POSTGRES_DSN": plane.addresses[name], "SLACKWATER_NATS_URL": plane.nats_url}
    process = await asyncio.create_subprocess_exec(
        *command, env={**environment, **addresses}, stdout=subprocess.PIPE, stderr=None
    )
    plane.pids[label] = process.pid
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            line = (await process.stdout.readline()).decode().split()
        if not line:
            raise RuntimeError(f"slackwater run {name} did not start; see its messages above")
        yield line[1]
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def load(plane: ControlPlane, ledger: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs the load generator during the block; its ledger is complete after its end."""
    command = [sys.executable, "-m", "tests.bench.load.generate", "--nats", plane.nats_url, "--ledger", str(ledger)]
    process = await asyncio.create_subprocess_exec(*command, *options, cwd=ROOT, stdout=subprocess.DEVNULL)
    plane.pids["generator"] = process.pid
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        del plane.pids["generator"]


def _postmaster(directory: Path) -> int:
    found = next(directory.rglob("postmaster.pid"))
    return int(found.read_text().split()[0])
