"""`AsyncClient`: the API, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from slackwater.client.answers import READS, Params, Reply, error_of, given, reply_of
from slackwater.client.calls import Names, T
from slackwater.client.connection import TIMEOUT_SECONDS, connection
from slackwater.client.event_stream import (
    CLOSING,
    PAUSE_SECONDS,
    SILENCE_SECONDS,
    STREAM,
    EventParser,
    Position,
    WatchedEvent,
    names_text,
)
from slackwater.client.generated.async_operations import AsyncOperations
from slackwater.client.request import body_of, parsed_as, path_of
from slackwater.client.transport import NoAnswer
from slackwater.model.errors import Unavailable

if TYPE_CHECKING:
    import httpx2


class AsyncClient(AsyncOperations):
    """The API of a server. An asynchronous context manager; `close` closes its connections.

    Without arguments: SLACKWATER_SERVER, SLACKWATER_TOKEN and SLACKWATER_CA, else the usual port of this machine.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        certificate: tuple[str | Path, str | Path] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`certificate` is the file of a client certificate and that of its key; `transport` replaces the network."""
        import httpx2

        from slackwater.client.bounded_answers import bounded_async

        options = connection(server, token, ca, certificate, timeout).options()
        self._http = httpx2.AsyncClient(**options, transport=transport, event_hooks={"response": [bounded_async]})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def watch_events(
        self,
        *,
        types: Sequence[str] | str = (),
        node: Sequence[str] | str = (),
        since: str | None = None,
        after: str | None = None,
        notify: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[WatchedEvent]:
        """Events as they happen, without end. As Client.watch_events."""
        params = given({"types": names_text(types), "node": names_text(node), "since": since})
        position = Position(params, after or "")
        while True:
            try:
                async for event in self._read_stream(position):
                    position.advance(event)
                    if event.type:
                        yield event
                    if event.type == CLOSING:
                        break
            except Unavailable as error:
                if not position.opened:
                    raise
                notify(f"{error.message}; reconnecting")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read_stream(self, position: Position) -> AsyncIterator[WatchedEvent]:
        import httpx2

        parser = EventParser()
        try:
            async with self._http.stream("GET", STREAM, timeout=SILENCE_SECONDS, **position.request()) as response:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                async for line in response.aiter_lines():
                    if (event := parser.feed(line)) is not None:
                        yield event
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise NoAnswer(f"the stream of {self._http.base_url} ended: {why}") from None

    async def _call(
        self,
        model: type[T],
        method: str,
        path: str,
        names: Names,
        params: Mapping[str, Any],
        body: Any = None,
        if_match: str | None = None,
    ) -> T:
        return parsed_as(model, await self._exchange(method, path_of(path, names), params, body_of(body), if_match))

    async def _pages(self, model: type[T], path: str, names: Names, params: Mapping[str, Any]) -> AsyncIterator[T]:
        place: str | None = None
        while True:
            page = (await self._exchange("GET", path_of(path, names), {**params, "continue": place})).body
            for item in page["items"]:
                yield parsed_as(model, item)
            place = page.get("continue")
            if place is None:
                return

    async def _exchange(
        self, method: str, url: str, params: Params, body: Any = None, if_match: str | None = None
    ) -> Reply:
        import httpx2

        headers = {"If-Match": if_match} if if_match else None
        try:
            response = await self._http.request(method, url, params=given(params), json=body, headers=headers)
        except httpx2.HTTPError as error:
            unsure = "" if method in READS else "; check its effect before you repeat it"
            raise NoAnswer(f"no answer from {self._http.base_url}: {error}{unsure}") from None
        return reply_of(response)
