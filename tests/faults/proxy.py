"""A TCP proxy that injects faults: latency, low bandwidth, partition, half-open connections, resets."""

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
    """The faults of each direction (`up`: from client to server). May be changed at any time.

    Held bytes are delayed, not lost, and neither side is notified: this is how TCP sees a partition.
    """

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    bytes_per_second: float | None = None
    hold_up: bool = False
    hold_down: bool = False


@dataclass(slots=True)
class Proxy:
    """Created by `proxying`. `seen` counts accepted connections."""

    host: str
    target_port: int
    behaviour: Behaviour = field(default_factory=Behaviour)
    port: int = 0
    seen: int = 0
    _pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = field(default_factory=set)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    def partition(self) -> None:
        """Hold both directions and do not answer new connections, without closing any."""
        self.behaviour = Behaviour(hold_up=True, hold_down=True)

    def half_open(self) -> None:
        """Deliver bytes from the client, hold bytes from the server."""
        self.behaviour = Behaviour(hold_down=True)

    def heal(self) -> None:
        """End all faults and deliver the held bytes."""
        self.behaviour = Behaviour()

    def reset(self) -> None:
        """Send RST on every open connection."""
        for pair in tuple(self._pairs):
            for writer in pair:
                _abort(writer)

    async def close(self) -> None:
        """End all connections: a socket that outlives its loop is a warning in some other test."""
        self.reset()
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(asyncio.CancelledError):  # by `close`; asyncio's callback of Python 3.11 would report it
                await self._join(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.behaviour.hold_up and self.behaviour.hold_down:  # nothing of a new connection reaches the server
            await asyncio.sleep(_HOLD_SECONDS)
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
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.wait(pumps)
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upward: bool) -> None:
        """Delay chunks by the latency. Many may be in flight, because latency does not limit the bandwidth."""
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
    """Close with RST instead of FIN."""
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
        await proxy.close()
