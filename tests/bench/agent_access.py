"""10,000 agents ask for credentials and connect with them; one is blocked; the broker starts again with all of them.

The broker's configuration has none of them, before and after. Agents enrol with their own code, half a hundred at
once; their connections afterwards are bare sockets, so that the broker and not the bench is measured.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.verdict import Scale, Target

from slackwater.bus.access.enrolment import FILE, Enrolment
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import NatsAccess, agent_user, read_credentials
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.broker import issuing_access, write_config
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import event_of
from slackwater.runtime.embedded_nats import EmbeddedNats

AT_ONCE: Final = 50
MEMORY_LIMIT: Final = "2500MiB"
"""For the broker: with less than it needs it collects garbage without end."""
PATIENCE_SECONDS: Final = 120.0
TARGET_REVOKED_SECONDS, TARGET_KILOBYTES, TARGET_START_SECONDS = 5.0, 200.0, 20.0


class Connection(asyncio.Protocol):
    """A client that logs in, answers pings, and waits for its end."""

    def __init__(self, credentials: UserCredentials) -> None:
        self._credentials = credentials
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"INFO "):
            nonce = json.loads(data.partition(b"\r\n")[0].removeprefix(b"INFO "))["nonce"]
            login = {"verbose": False, "lang": "bench", "version": "0", "jwt": self._credentials.token,
                     "sig": self._credentials.answer(nonce).decode()}  # fmt: skip
            self._transport.write(b"CONNECT %b\r\nPING\r\n" % json.dumps(login).encode())
        if b"PING\r\n" in data:
            self._transport.write(b"PONG\r\n")
        if b"PONG\r\n" in data and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        for waiting in (self.ready, self.ended):
            if not waiting.done():
                waiting.set_result(None)

    def close(self) -> None:
        self._transport.close()


def measure(folder: Path, *, agents: int) -> dict[str, Any]:
    """Seconds of each step, and the broker's memory after it."""
    return asyncio.run(_measure(folder, [f"node-{number}.example.internal" for number in range(agents)]))


async def _measure(folder: Path, nodes: Sequence[str]) -> dict[str, Any]:
    made, spent = folder / "access", dict[str, float]()
    began = time.monotonic()
    write_config(made, nodes, "127.0.0.1", 4222, None)
    spent["write enrolments"] = time.monotonic() - began
    before = (made / "access.conf").read_bytes()
    server = EmbeddedNats(folder / "broker", include=made / "access.conf", memory_limit=MEMORY_LIMIT)
    url = await server.start()
    memory = {"started": _megabytes(server)}
    try:
        access = NatsAccess(credentials_file=made / "credentials/ingestion.creds", authority_file=made / "access.seed")
        async with (
            connect_bus(url, name="ingestion", topology=load().only("ingestion"), access=access) as bus,
            issuing_access(bus, url, access),
        ):
            began = time.monotonic()
            await _in_groups(nodes, lambda node: _enrolment(made, folder, url, node).obtain())
            spent["enrol"] = time.monotonic() - began
            memory["enrolled"] = _megabytes(server)
            credentials = [read_credentials(folder / "agents" / node / FILE) for node in nodes]
            began = time.monotonic()
            connections = await _connect(url, credentials)
            spent["connect"] = time.monotonic() - began
            memory["connected"] = _megabytes(server)
            began = time.monotonic()
            now = datetime.now(UTC)
            block = AgentBlockChanged(node=nodes[0], blocked=True, reason="bench", changed_by="bench", since=now)
            await bus.publish(event_of(block, source="ingestion", time=now))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await connections[0].ended
            revoked = time.monotonic() - began
            cut = sum(connection.ended.done() for connection in connections)
            for connection in connections:
                connection.close()
        await server.stop()
        began = time.monotonic()
        await server.start()
        spent["start again"] = time.monotonic() - began
        memory["started again"] = _megabytes(server)
        began = time.monotonic()
        for connection in await _connect(url, credentials[1:]):
            connection.close()
        spent["connect again"] = time.monotonic() - began
    finally:
        await server.stop()
    per_agent = (memory["connected"] - memory["started"]) * 1024 / len(nodes)
    is_same = (made / "access.conf").read_bytes() == before
    return {
        "agents": len(nodes),
        "configuration bytes": len(before),
        "seconds": {step: round(seconds, 2) for step, seconds in spent.items()},
        "broker megabytes": memory,
        "revoked after seconds": round(revoked, 2),
        "ended by the block": cut,
        "targets": (
            Target("revoked", round(revoked, 2), TARGET_REVOKED_SECONDS, "s", Scale.TIME),
            Target("changed configurations", float(not is_same), 0.0),
            Target("others cut", float(cut - 1), 0.0),
            Target("memory per agent", round(per_agent, 1), TARGET_KILOBYTES, "kB"),
            Target("start with all accounts", round(spent["start again"], 2), TARGET_START_SECONDS, "s", Scale.TIME),
        ),
    }


def _enrolment(made: Path, folder: Path, url: str, node: str) -> Enrolment:
    access = NatsAccess(enrolment_file=made / "agents" / f"{agent_user(node)}.creds")
    return Enrolment(access, url, node, folder / "agents" / node)


async def _in_groups(nodes: Sequence[str], work: Any) -> None:
    for group in _groups(nodes):
        await asyncio.gather(*map(work, group))


async def _connect(url: str, credentials: Sequence[UserCredentials]) -> list[Connection]:
    loop, made = asyncio.get_running_loop(), list[Connection]()
    host, _, port = urlsplit(url).netloc.rpartition(":")
    for group in _groups(credentials):
        opened = [loop.create_connection(partial(Connection, one), host, int(port)) for one in group]
        connections = [connection for _, connection in await asyncio.gather(*opened)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(connection.ready for connection in connections))
        assert not any(connection.ended.done() for connection in connections), "the broker refuses an agent"
        made += connections
    return made


def _groups(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def _megabytes(server: EmbeddedNats) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
    return 0
