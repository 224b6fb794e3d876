"""/metrics and /livez of an agent: the few lines of HTTP that a scrape needs, instead of a web framework per node."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from slackwater.agent.settings import AgentSettings
from slackwater.model.errors import Misconfigured
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_REQUEST_SECONDS = 5.0
_HEAD_BYTES = 8192


@asynccontextmanager
async def exposing(settings: AgentSettings, registry: CollectorRegistry = REGISTRY) -> AsyncIterator[str | None]:
    """Serve while the context is open; yields the URL, or None if no port is set.

    Raises Misconfigured for an address that others could read without a token, or that is taken.
    """
    if settings.metrics_port is None:
        yield None
        return
    if settings.metrics_token is None and not HttpSettings(host=settings.metrics_host).loopback:
        raise Misconfigured(
            f"will not show metrics on {settings.metrics_host} without protection: "
            "set SLACKWATER_AGENT_METRICS_TOKEN, or listen on 127.0.0.1",
            field="metrics_host",
        )
    token = settings.metrics_token.get_secret_value() if settings.metrics_token else None
    page = _Page(registry, token)
    try:
        server = await asyncio.start_server(
            page.answer, settings.metrics_host, settings.metrics_port, limit=_HEAD_BYTES
        )
    except OSError as error:
        text = f"cannot listen on {settings.metrics_host}:{settings.metrics_port}: {error.strerror}"
        raise Misconfigured(f"{text}; set SLACKWATER_AGENT_METRICS_PORT to a free one", field="metrics_port") from None
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        _log.info("metrics served", url=url)
        yield url


class _Page:
    """Answers one request per connection."""

    def __init__(self, registry: CollectorRegistry, token: str | None) -> None:
        self._registry = registry
        self._token = token

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head.decode("latin-1")))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("scrape broken off", error=repr(error))
        finally:
            writer.close()

    def _response(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, target = request.partition(" ")
        path = target.split(" ")[0].split("?")[0]
        if method not in ("GET", "HEAD"):
            return _http("405 Method Not Allowed", b"GET only\n", head_only=False)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if path == "/livez":
            return _http("200 OK", b"ok\n", head_only=method == "HEAD")
        if path != "/metrics":
            return _http("404 Not Found", b"/metrics or /livez\n", head_only=method == "HEAD")
        if self._token is not None and not _shows(headers.get("authorization", ""), self._token):
            return _http("401 Unauthorized", b"Authorization: Bearer TOKEN\n", head_only=method == "HEAD")
        return _http("200 OK", generate_latest(self._registry), CONTENT_TYPE_LATEST, head_only=method == "HEAD")


def _shows(authorization: str, token: str) -> bool:
    scheme, _, shown = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def _http(status: str, body: bytes, kind: str = "text/plain; charset=utf-8", *, head_only: bool) -> bytes:
    more = "www-authenticate: Bearer\r\n" if status.startswith("401") else ""
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else body)
