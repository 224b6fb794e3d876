"""`Client`: the API, one request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from slackwater.client.calls import Names, T
from slackwater.client.connection import TIMEOUT_SECONDS, connection
from slackwater.client.event_stream import PAUSE_SECONDS, WatchedEvent, names_text
from slackwater.client.generated.operations import Operations
from slackwater.client.request import body_of, parsed_as, path_of
from slackwater.client.transport import Transport, keep_reading

if TYPE_CHECKING:
    import httpx2


class Client(Operations):
    """The API of a server. A context manager; `close` closes its connections.

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
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`certificate` is the file of a client certificate and that of its key; `transport` replaces the network."""
        options = connection(server, token, ca, certificate, timeout)
        self.transport = Transport.open(options, transport)
        """Requests without types: `client.transport.request("GET", "/v1/nodes")`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    def watch_events(
        self,
        *,
        types: Sequence[str] | str = (),
        node: Sequence[str] | str = (),
        since: str | None = None,
        after: str | None = None,
        notify: Callable[[str], None] = lambda _: None,
    ) -> Iterator[WatchedEvent]:
        """Events as they happen, without end: a connection that ends is resumed after the last event.

        types, node  names or patterns (`decision.*`, `edge-*`); empty: all
        since        a time or an age (`15m`); without it and `after`: from now on
        after        `place` of the last event that was handled
        notify       receives why a connection ended

        Raises: the error of the first connection; later ones are retried.
        """
        params = {"types": names_text(types), "node": names_text(node), "since": since}
        return keep_reading(self.transport, params, after or "", notify, lambda: time.sleep(PAUSE_SECONDS))

    def _call(
        self,
        model: type[T],
        method: str,
        path: str,
        names: Names,
        params: Mapping[str, Any],
        body: Any = None,
        if_match: str | None = None,
    ) -> T:
        headers = {"If-Match": if_match} if if_match else None
        url = path_of(path, names)
        return parsed_as(model, self.transport.exchange(method, url, params, body=body_of(body), headers=headers))

    def _pages(self, model: type[T], path: str, names: Names, params: Mapping[str, Any]) -> Iterator[T]:
        place: str | None = None
        while True:
            page = self.transport.request("GET", path_of(path, names), {**params, "continue": place})
            yield from (parsed_as(model, item) for item in page["items"])
            place = page.get("continue")
            if place is None:
                return
