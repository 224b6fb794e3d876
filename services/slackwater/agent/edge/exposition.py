"""/metrics and /livez of an agent: the few lines of HTTP that a scrape needs, instead of a web framework per node.

Access is decided as everywhere (slackwater.runtime.authentication): by token, by certificate, or not at all.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from slackwater.agent.settings import AgentSettings
from slackwater.model.errors import Misconfigured
from slackwater.runtime.authentication import Authenticator, Forbidden, Unauthorized, authenticate
from slackwater.runtime.certificates import ServerTls, common_name
from slackwater.runtime.roles import OPEN, Needed, Principal, Role
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.logs import get_logger

PATHS: Mapping[str, Needed] = {"/livez": OPEN, "/metrics": Role.VIEWER}
"""Every path, and the role that may read it."""
_log = get_logger(__name__)
_REQUEST_SECONDS = 5.0
_HEAD_BYTES = 8192
_MOST_CONNECTIONS = 32
"""At the limit the oldest connection makes room for a new one."""
_CERTIFICATE_SECONDS = 10.0
_ACCEPT_AGAIN_SECONDS = 0.1


@asynccontextmanager
async def exposing(settings: AgentSettings, registry: CollectorRegistry = REGISTRY) -> AsyncIterator[str | None]:
    """Serve while the context is open; yields the URL, or None if no port is set.

    Raises Misconfigured for an address that others could read without proving anything, files that cannot be used,
    or a port that is taken.
    """
    if settings.metrics_port is None:
        yield None
        return
    doors = doors_of(settings)
    tls = ServerTls(doors) if doors.tls else None
    page = _Page(registry, Authenticator(doors), tls)
    try:
        listeners = await _listeners(settings.metrics_host, settings.metrics_port)
    except OSError as error:
        text = f"cannot listen on {settings.metrics_host}:{settings.metrics_port}: {error.strerror}"
        raise Misconfigured(f"{text}; set SLACKWATER_AGENT_METRICS_PORT to a free one", field="metrics_port") from None
    tasks = [asyncio.create_task(page.accept(listener)) for listener in listeners]
    if tls is not None:
        tasks.append(asyncio.create_task(_renew(tls)))
    try:
        host, port = listeners[0].getsockname()[:2]
        url = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
        _log.info("metrics served", url=url)
        yield url
    finally:
        for task in (*tasks, *page.open):
            task.cancel()
        await asyncio.wait([*tasks, *page.open])
        for listener in listeners:
            listener.close()


def doors_of(settings: AgentSettings) -> HttpSettings:
    """Where the agent listens, and its access rules. Raises Misconfigured for open access, or for half of TLS."""
    doors = HttpSettings(
        host=settings.metrics_host,
        port=settings.metrics_port,
        token=settings.metrics_token,
        tokens_file=settings.metrics_tokens_file,
        tls_certificate=settings.metrics_tls_certificate,
        tls_key=settings.metrics_tls_key,
        tls_client_ca=settings.metrics_tls_client_ca,
    )
    if doors.wants_tls and not doors.tls:
        raise Misconfigured(
            "set both SLACKWATER_AGENT_METRICS_TLS_CERTIFICATE and SLACKWATER_AGENT_METRICS_TLS_KEY", field="tls"
        )
    try:
        doors.refuse_if_open_to_all()
    except Misconfigured:
        raise Misconfigured(
            f"will not show metrics on {settings.metrics_host} without protection: set "
            "SLACKWATER_AGENT_METRICS_TOKENS_FILE or SLACKWATER_AGENT_METRICS_TOKEN, or "
            "SLACKWATER_AGENT_METRICS_TLS_CERTIFICATE and SLACKWATER_AGENT_METRICS_TLS_KEY, or listen on 127.0.0.1",
            field="metrics_host",
        ) from None
    return doors


async def _listeners(host: str, port: int) -> Sequence[socket.socket]:
    """Returns a socket for each address of the host. Raises OSError."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            listeners.append(listener := socket.socket(family, socket.SOCK_STREAM))
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_MOST_CONNECTIONS)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


async def _renew(tls: ServerTls) -> None:
    while True:
        await asyncio.sleep(_CERTIFICATE_SECONDS)
        tls.refresh()


class _Page:
    """Answers one request per connection. It accepts by itself, because a server of asyncio shows no connection that is
    still in a TLS handshake.
    """

    def __init__(self, registry: CollectorRegistry, gate: Authenticator, tls: ServerTls | None) -> None:
        self._registry = registry
        self._gate = gate
        self._tls = tls
        self.open: dict[asyncio.Task[None], None] = {}

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor is left, or the client is gone
                _log.debug("no connection accepted", error=repr(error))
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            if len(self.open) >= _MOST_CONNECTIONS:
                oldest = next(iter(self.open))
                del self.open[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._serve(accepted))
            self.open[task] = None
            task.add_done_callback(lambda ended: self.open.pop(ended, None))

    async def _serve(self, accepted: socket.socket) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(_HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        with accepted:
            try:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    context = None if self._tls is None else self._tls.context
                    transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
                    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                    try:
                        await self._answer(reader, writer)
                    finally:
                        transport.abort()  # closing would wait for a client that reads nothing
            except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                _log.debug("scrape broken off", error=repr(error))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        writer.write(self._response(head.decode("latin-1"), None if tls is None else common_name(tls)))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _response(self, head: str, certificate: str | None) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, target = request.partition(" ")
        path = target.split(" ")[0].split("?")[0]
        if method not in ("GET", "HEAD"):
            return _http("405 Method Not Allowed", b"GET only\n", head_only=False)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        head_only = method == "HEAD"
        caller = self._gate.authenticate(headers, certificate)
        try:
            authenticate(_needed(path, caller), caller)
        except Unauthorized as error:
            return _http("401 Unauthorized", f"{error.message}\n".encode(), head_only=head_only)
        except Forbidden as error:
            return _http("403 Forbidden", f"{error.message}\n".encode(), head_only=head_only)
        if path == "/livez":
            return _http("200 OK", b"ok\n", head_only=head_only)
        if path == "/metrics":
            return _http("200 OK", generate_latest(self._registry), CONTENT_TYPE_LATEST, head_only=head_only)
        return _http("404 Not Found", f"{' or '.join(PATHS)}\n".encode(), head_only=head_only)


def _needed(path: str, caller: Principal | None) -> Needed:
    """A caller without proof is not told which paths exist."""
    return PATHS.get(path, Role.VIEWER if caller is None else OPEN)


def _http(status: str, body: bytes, kind: str = "text/plain; charset=utf-8", *, head_only: bool) -> bytes:
    more = "www-authenticate: Bearer\r\n" if status.startswith("401") else ""
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else body)
