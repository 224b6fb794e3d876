"""A TCP proxy that misbehaves on demand: latency, trickle, cut, half-open, reset. One listener, one target."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_CHUNK = 16 * 1024
_HOLD_SECONDS = 0.02
_UNDER_WAY = 256


@dataclass(slots=True)
class Behaviour:
    """What the network does to each direction (`up`: from client to server). May be changed at any time.

    What is held does not pass and is not lost: neither side is told, and what was under way arrives late, which is
    what a partition looks like to TCP.
    """

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    bytes_per_second: float | None = None
    hold_up: bool = False
    hold_down: bool = False


@dataclass(slots=True)
class Proxy:
    """Made by `proxying`. `seen` counts connections taken."""

    host: str
    target_port: int
    behaviour: Behaviour = field(default_factory=Behaviour)
    port: int = 0
    seen: int = 0
    _pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    def partition(self) -> None:
        """Nothing passes in either direction and no new connection is answered; the ends are not told."""
        self.behaviour = Behaviour(hold_up=True, hold_down=True)

    def half_open(self) -> None:
        """What the client sends arrives; what the server says does not."""
        self.behaviour = Behaviour(hold_down=True)

    def heal(self) -> None:
        """The network is back, and with it what was under way."""
        self.behaviour = Behaviour()

    def reset(self) -> None:
        """RST on every open connection."""
        for pair in tuple(self._pairs):
            for writer in pair:
                _abort(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen += 1
        try:
            up_reader, up_writer = await asyncio.open_connection(self.host, self.target_port)
        except OSError:
            _abort(writer)
            return
        pair = (writer, up_writer)
        self._pairs.add(pair)
        try:
            pumps = {
                asyncio.create_task(self._pump(reader, up_writer, upward=True)),
                asyncio.create_task(self._pump(up_reader, writer, upward=False)),
            }
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upward: bool) -> None:
        """Late by the latency, but many chunks may be under way: a slow line is a long one, not a narrow one."""
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)
        arriving = asyncio.create_task(self._arrive(line, writer, upward))
        due = 0.0
        try:
            with suppress(OSError):
                while data := await reader.read(_CHUNK):
                    now = self.behaviour
                    late = now.latency_seconds + random.uniform(0, now.jitter_seconds)
                    due = max(due, asyncio.get_running_loop().time() + late)
                    if now.bytes_per_second is not None:
                        due += len(data) / now.bytes_per_second
                    await line.put((due, data))
        finally:
            arriving.cancel()
            await asyncio.wait({arriving})

    async def _arrive(
        self, line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, upward: bool
    ) -> None:
        with suppress(OSError):
            while True:
                due, data = await line.get()
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                while self._holds(upward):
                    await asyncio.sleep(_HOLD_SECONDS)
                writer.write(data)
                await writer.drain()

    def _holds(self, upward: bool) -> bool:
        return self.behaviour.hold_up if upward else self.behaviour.hold_down


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST in place of FIN."""
    with suppress(OSError):
        raw = writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def proxying(target_port: int, host: str = "127.0.0.1") -> AsyncIterator[Proxy]:
    """A proxy on a free port in front of `target_port`."""
    proxy = Proxy(host, target_port)
    server = await asyncio.start_server(proxy.serve, host, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.reset()
