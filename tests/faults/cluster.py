"""Three real nats-servers that form one JetStream cluster on the loopback. Their routes run through proxies, one for
each direction, so that a server can be cut off from the others while its clients stay connected.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from tests.faults.proxy import Proxy, proxying

from slackwater.runtime.embedded_nats import EmbeddedNats

SIZE = 3
UNREACHABLE = "127.0.0.1:1"
"""What servers tell each other as the address of their routes: they must not find a way around the proxies."""


@dataclass(slots=True)
class Cluster:
    """`servers` by name, `routes` by the names of both ends."""

    servers: dict[str, EmbeddedNats] = field(default_factory=dict)
    routes: dict[tuple[str, str], Proxy] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Every server, as a client is given them."""
        return ",".join(server.url for server in self.servers.values())

    def name_at(self, port: int) -> str:
        """Returns the server that listens on this port."""
        return next(name for name, server in self.servers.items() if server.url.endswith(f":{port}"))

    async def start(self, names: Sequence[str]) -> None:
        for name in names:
            await self.servers[name].start()

    def pause(self, name: str) -> None:
        """Stop the process: its connections stay open, and nothing answers."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def is_paused(self, name: str) -> bool:
        """Returns whether the process is stopped by a signal."""
        return Path(f"/proc/{self.servers[name].pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def cut_off(self, name: str) -> None:
        """Part a server from the others, but not from its clients."""
        for pair, route in self.routes.items():
            if name in pair:
                route.partition()

    def rejoin(self, name: str) -> None:
        for pair, route in self.routes.items():
            if name in pair:
                route.heal()
                route.reset()  # as after a partition that outlasted TCP: both sides dial anew

    def pids(self) -> dict[str, int]:
        return {name: server.pid for name, server in self.servers.items() if server.pid is not None}

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self.servers[name].pid
        if pid is not None:
            os.kill(pid, number)


@asynccontextmanager
async def cluster(folder: Path, *, started: int = SIZE) -> AsyncIterator[Cluster]:
    """`started`: the servers that run from the beginning; a cluster that grows starts the others later."""
    names = [f"n{number}" for number in range(1, SIZE + 1)]
    made = Cluster()
    async with AsyncExitStack() as stack:
        for pair in permutations(names, 2):
            made.routes[pair] = await stack.enter_async_context(proxying(0))
        free = free_ports(2 * SIZE)
        ports, clients = dict(zip(names, free[:SIZE], strict=True)), dict(zip(names, free[SIZE:], strict=True))
        for (_, other), route in made.routes.items():
            route.target_port = ports[other]
        for name in names:
            towards = [route.port for (one, _), route in made.routes.items() if one == name]
            file = folder / f"{name}.conf"
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(_configuration(name, ports[name], towards))
            made.servers[name] = EmbeddedNats(folder / name, port=clients[name], include=file)
        for server in made.servers.values():
            stack.push_async_callback(server.stop)
        await made.start(names[:started])
        try:
            yield made
        finally:
            for name in names:
                made.resume(name)


def _configuration(name: str, port: int, towards: Sequence[int]) -> str:
    routes = json.dumps([f"nats-route://127.0.0.1:{route}" for route in towards])
    return f"""server_name: {name}
cluster {{
  name: slackwater
  listen: "127.0.0.1:{port}"
  advertise: "{UNREACHABLE}"
  pool_size: 1
  routes: {routes}
}}
"""


def free_ports(count: int) -> list[int]:
    """Ports that were free at the same moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
