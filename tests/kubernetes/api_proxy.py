"""An HTTP proxy in front of an API server that delays, cuts watches after each event, or loses answers.

It ends TLS with the server's own certificate, so that it sees requests. One request per connection.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from tests.kubernetes.control_plane import ControlPlane

_CHUNK = 64 * 1024
_EVENT_END = re.compile(rb"(?<!\r)\n")
"""The end of a line of JSON; those of HTTP end with CR LF."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)


@dataclass(slots=True)
class ApiProxy:
    """The faults may be changed at any time. `events_per_watch`: a watch is cut after so many events (0: never).
    `loses`: of requests whose path ends like this the server gets everything, and the client no answer."""

    target: str
    tls: ssl.SSLContext
    authority: ssl.SSLContext
    latency_seconds: float = 0.0
    events_per_watch: int = 0
    loses: str = "-"
    port: int = 0
    cuts: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of every request but watches."""
    queries: list[str] = field(default_factory=list)
    """Their queries."""
    watches: int = 0
    _serving: set[asyncio.Task[None]] = field(default_factory=set)
    _watching: set[asyncio.Task[None]] = field(default_factory=set)

    def cut_watches(self) -> None:
        """Cut all that are open now."""
        for task in tuple(self._watching):
            task.cancel()

    def count(self, method: str, ending: str) -> int:
        """Requests with this method whose path ends like this."""
        return sum(one == method and path.endswith(ending) for one, path in self.requests)

    def lists(self, path: str) -> int:
        """Lists of a collection, without those that only ask for its version."""
        return sum(
            method == "GET" and seen.endswith(path) and "limit=1&" not in f"{query}&"
            for (method, seen), query in zip(self.requests, self.queries, strict=True)
        )

    def kubeconfig(self, of: Path, folder: Path) -> Path:
        """A copy of a kubeconfig that goes through the proxy."""
        document = yaml.safe_load(of.read_text())
        for entry in document["clusters"]:
            entry["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = folder / "proxied.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._watching.discard)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._exchange(reader, writer)
                writer.close()
                await writer.wait_closed()
        except asyncio.CancelledError:
            pass  # its task belongs to a callback of the server, which reports it
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def close(self) -> None:
        for task in tuple(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(tuple(self._serving))
        await asyncio.sleep(0)  # aborted transports are closed in the next turn

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        method, target, _ = head.decode().split(" ", 2)
        path, is_watch = target.partition("?")[0], "watch=true" in target
        if is_watch:
            self.watches += 1
            if (task := asyncio.current_task()) is not None:
                self._watching.add(task)
        else:
            self.requests.append((method, path))
            self.queries.append(target.partition("?")[2])
        await asyncio.sleep(self.latency_seconds)
        split = urlsplit(self.target)
        up_reader, up_writer = await asyncio.open_connection(
            split.hostname, split.port, ssl=self.authority, limit=1 << 24
        )
        try:
            up_writer.write(_CONNECTION.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n" + body)
            if path.endswith(self.loses):
                await up_reader.read()
            elif is_watch:
                await self._watch(up_reader, writer)
            else:
                writer.write(await up_reader.read())
                await writer.drain()
        finally:
            up_writer.transport.abort()

    async def _watch(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await up_reader.readuntil(b"\r\n\r\n"))
        events = 0
        while data := await up_reader.read(_CHUNK):
            for end in _EVENT_END.finditer(data):
                events += 1
                if events == self.events_per_watch:
                    self.cuts += 1
                    writer.write(data[: end.end()])
                    await writer.drain()
                    return
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def api_proxy(plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    """A proxy on a free port."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(plane.folder / "server.crt", plane.folder / "server.key")
    proxy = ApiProxy(plane.url, tls, ssl.create_default_context(cafile=str(plane.folder / "ca.crt")))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
