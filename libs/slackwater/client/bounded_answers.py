"""Bounds what a client reads as the answer of a server, which may be a wrong one, or another in its place.

`bounded` and `bounded_async` are hooks of httpx2's clients (`event_hooks={"response": [bounded]}`). They count what is
unpacked, too: a megabyte of gzip may be a gigabyte.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx2

MOST_BYTES: Final = 64 << 20
"""Of an answer. A page of 1,000 nodes has about 5 MB."""
MOST_LINE_BYTES: Final = 4 << 20
"""Of one line of a stream of events or of a watch, which has no end."""
_ANY_HEADER: Final = 47
"""zlib reads its own header, or that of gzip."""
_UNPACKED: Final = frozenset({"gzip", "deflate"})


class AnswerTooLarge(httpx2.HTTPError):
    """The answer has more bytes than a client reads."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer has more than {most >> 20} MiB")


def bounded(response: httpx2.Response) -> None:
    """Bound an answer before it is read. Reading it raises AnswerTooLarge."""
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _UNPACKED:
        raise httpx2.DecodingError(f"its answer is packed as {encoding[:20]!r}, which was not asked for")
    response.stream = _Bounded(response, encoding in _UNPACKED)


async def bounded_async(response: httpx2.Response) -> None:
    """As `bounded`, for asynchronous clients."""
    bounded(response)


class _Bounded(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The unpacked bytes of an answer."""

    def __init__(self, response: httpx2.Response, is_packed: bool) -> None:
        self._inner: Any = response.stream
        self._unpacker = zlib.decompressobj(_ANY_HEADER) if is_packed else None
        kind = response.headers.get("content-type", "")
        self._has_lines = kind.startswith("text/event-stream") or "watch" in response.request.url.params
        self._most = MOST_LINE_BYTES if self._has_lines else MOST_BYTES
        self._read = 0
        """Bytes of the answer, or of its present line."""

    def __iter__(self) -> Iterator[bytes]:
        for part in self._inner:
            yield self._admitted(part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            yield self._admitted(part)

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _admitted(self, part: bytes) -> bytes:
        if self._unpacker is not None:
            try:
                part = self._unpacker.decompress(part, self._most + 1)
            except zlib.error as error:
                raise httpx2.DecodingError(f"its answer cannot be unpacked: {error}") from None
        end_of_line = part.rfind(b"\n") if self._has_lines else -1
        self._read = self._read + len(part) if end_of_line < 0 else len(part) - end_of_line - 1
        if self._read > self._most or (self._unpacker is not None and self._unpacker.unconsumed_tail):
            raise AnswerTooLarge(self._most)
        return part
