"""Lists and watches the pods of one node: the little of an HTTP client that an agent needs.

The agent's image has no HTTP library, and every node would pay for one. A request is a GET on a connection of its own,
which ends with it; the token is read for each, because the kubelet replaces it. See apiserver.port.ObjectReader.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlencode

from slackwater.agent.adapters.kubepods.api_access import ApiAccess
from slackwater.apiserver.answers import (
    SILENT_SECONDS,
    answered,
    decode_answer,
    read_event,
    read_page,
    refusal,
    watch_query,
)
from slackwater.apiserver.port import KindNotServed, Page, WatchEvent
from slackwater.apiserver.records import NODES, ApiRecord, WatchedKind
from slackwater.model.errors import NotFound, Unavailable

T = TypeVar("T", bound=ApiRecord)
REQUEST_SECONDS: Final = 15.0
_MOST_LINE_BYTES: Final = 4 << 20
"""A pod has at most 1.5 MiB in etcd; JSON of a watch holds one in a line."""
_MOST_PAGE_BYTES: Final = 64 << 20
"""Of a part of a list: 500 pods have some 5 MiB."""
_PART_BYTES: Final = 1 << 16
"""Of a chunk, which may have any size, as much is held at once."""
_BROKEN = (OSError, EOFError, asyncio.LimitOverrunError, ValueError)
"""What a connection raises that ends, breaks, or speaks no HTTP; IncompleteReadError is an EOFError."""


@dataclass(slots=True)
class PodReader:
    """`node`: it and the pods whose spec names it are asked for, and no others."""

    access: ApiAccess
    node: str
    _tls: ssl.SSLContext | None = field(default=None)

    async def list_page(self, kind: WatchedKind[T], limit: int, page: str = "") -> Page[T]:
        query = {"limit": str(limit), **({"continue": page} if page else {})}
        try:
            async with asyncio.timeout(REQUEST_SECONDS), self._get(kind, query) as parts:
                with _translated():
                    body = await _page(parts)
        except NotFound as error:
            raise KindNotServed(f"the cluster does not serve {kind.plural} of {kind.api_version}") from error
        except TimeoutError as error:
            raise Unavailable(f"the API server did not answer within {REQUEST_SECONDS:g} s") from error
        with _translated():
            return read_page(kind, decode_answer(body))

    async def watch(self, kind: WatchedKind[T], version: str) -> AsyncIterator[WatchEvent[T]]:
        async with self._get(kind, watch_query(version)) as parts:
            yield answered(version)
            async for line in _lines(parts):
                if line:
                    with _translated():
                        event = read_event(kind, line)
                    yield event

    @asynccontextmanager
    async def _get(self, kind: WatchedKind[T], query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The parts of the answer's body. Raises what a status means."""
        name = "metadata.name" if kind.plural == NODES.plural else "spec.nodeName"
        selected = urlencode({"fieldSelector": f"{name}={self.node}", **query})
        access = self.access
        with _translated():
            if self._tls is None and access.is_tls:
                self._tls = access.tls()
            async with asyncio.timeout(REQUEST_SECONDS):
                reader, writer = await asyncio.open_connection(
                    access.host, access.port, ssl=self._tls if access.is_tls else None, limit=_MOST_LINE_BYTES
                )
        try:
            with _translated():
                writer.write(_request(f"{access.prefix}/{kind.path}?{selected}", access.authority, access.token()))
                await writer.drain()
                async with asyncio.timeout(REQUEST_SECONDS):
                    status, chunked = await _head(reader)
                body = _chunks(reader) if chunked else _rest(reader)
                if status != HTTPStatus.OK:
                    async with asyncio.timeout(REQUEST_SECONDS):
                        raise refusal(status, await _page(body))
            yield body
        finally:
            writer.close()


class _translated:  # noqa: N801 - used like a function; a generator cannot hold a watch open across yields
    """Raises Unavailable for what a connection raises."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _BROKEN):  # TimeoutError is an OSError, msgspec's errors are ValueErrors
            raise Unavailable(f"the API server does not answer: {str(error) or type(error).__name__}") from error


def _request(target: str, authority: str, token: str) -> bytes:
    lines = [
        f"GET /{target.lstrip('/')} HTTP/1.1",
        f"Host: {authority}",
        "Accept: application/json",
        "Connection: close",
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return ("\r\n".join([*lines, "User-Agent: slackwater-agent", "", ""])).encode()


async def _head(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """The status, and whether the body comes in chunks."""
    first = (await reader.readline()).split()
    if len(first) < 2:
        raise EOFError("it closed the connection")
    status, chunked = int(first[1]), False
    while line := await reader.readline():
        if not line.strip():
            return status, chunked
        name, _, value = line.lower().partition(b":")
        chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
    raise EOFError("it closed the connection")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(SILENT_SECONDS):
            size = int((await reader.readline()).split(b";")[0], 16)
            if size <= 0:
                return
            while size > 0:
                part = await reader.readexactly(min(size, _PART_BYTES))
                size -= len(part)
                yield part
            await reader.readexactly(2)


async def _page(parts: AsyncIterator[bytes]) -> bytes:
    """The whole body. Raises ValueError for one that is too large."""
    read: list[bytes] = []
    left = _MOST_PAGE_BYTES
    async for part in parts:
        left -= len(part)
        if left < 0:
            raise ValueError(f"its answer has more than {_MOST_PAGE_BYTES >> 20} MiB")
        read.append(part)
    return b"".join(read)


async def _rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(SILENT_SECONDS):
            part = await reader.read(_PART_BYTES)
        if not part:
            return
        yield part


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    held: list[bytes] = []
    held_bytes = 0
    with _translated():
        async for part in parts:
            *whole, rest = part.split(b"\n")
            for line in whole:
                yield b"".join([*held, line])
                held, held_bytes = [], 0
            held.append(rest)
            held_bytes += len(rest)
            if held_bytes > _MOST_LINE_BYTES:
                raise ValueError(f"a line of its answer has more than {_MOST_LINE_BYTES >> 20} MiB")
    if any(held):
        yield b"".join(held)
