"""Requests of the API without types: JSON in, JSON out, errors by code. The command line reads with it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from slackwater.client.answers import READS, Params, Reply, error_of, given, reply_of
from slackwater.client.connection import ServerAccess
from slackwater.client.event_stream import CLOSING, SILENCE_SECONDS, STREAM, EventParser, Position, WatchedEvent
from slackwater.model.errors import SlackwaterError, Unavailable

if TYPE_CHECKING:
    import httpx2

Explain = Callable[["httpx2.Response", SlackwaterError], SlackwaterError]


class NoAnswer(Unavailable):
    """The server did not answer at all, or the connection was lost."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Sends requests to one server."""

    http: httpx2.Client
    explain: Explain = lambda _, error: error
    """Adds advice to an error that the server named."""
    warned: set[str] = field(default_factory=set)
    """Warnings that were shown: a document that is tried and then stored has each twice."""

    @classmethod
    def open(
        cls,
        connection: ServerAccess,
        transport: httpx2.BaseTransport | None = None,
        explain: Explain = lambda _, error: error,
    ) -> Self:
        """A transport that `close` must close."""
        import httpx2

        from slackwater.client.bounded_answers import bounded

        hooks: Any = {"response": [bounded]}
        return cls(httpx2.Client(**connection.options(), transport=transport, event_hooks=hooks), explain)

    @property
    def server(self) -> str:
        return str(self.http.base_url)

    def close(self) -> None:
        self.http.close()

    def request(self, method: str, path: str, params: Params | None = None, body: object = None) -> Any:
        """The JSON of an answer, as `exchange`."""
        return self.exchange(method, path, params, body=body).body

    def exchange(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """The answer of a request with a JSON body (None: no body). Raises the server's error, or Unavailable."""
        import httpx2

        bound: Any = self.http.timeout if timeout is None else timeout
        try:
            response = self.http.request(method, path, params=given(params), json=body, headers=headers, timeout=bound)
        except httpx2.HTTPError as error:
            unsure = "" if method in READS else "; check its effect before you repeat it"
            raise NoAnswer(f"no answer from {self.server}: {error}{unsure}") from None
        if response.is_error:
            raise self.explain(response, error_of(response))
        return reply_of(response)

    def read_stream(
        self, params: Mapping[str, Any], headers: Mapping[str, str] | None = None, timeout: Any = SILENCE_SECONDS
    ) -> Iterator[WatchedEvent]:
        """The events of one connection to the stream. Raises Unavailable when it is lost."""
        import httpx2

        parser = EventParser()
        try:
            with self.http.stream("GET", STREAM, params=params, headers=headers, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise self.explain(response, error_of(response))
                for line in response.iter_lines():
                    if (event := parser.feed(line)) is not None:
                        yield event
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise NoAnswer(f"the stream of {self.server} ended: {why}") from error


def keep_reading(
    transport: Transport,
    params: Params,
    place: str,
    notify: Callable[[str], None],
    pause: Callable[[], None],
) -> Generator[WatchedEvent]:
    """Events without end: a connection that ends is resumed after the last event. An error before the first answer is
    raised; `notify` receives why a later connection ended.
    """
    position = Position(given(params), place)
    while True:
        try:
            for event in transport.read_stream(**position.request()):
                position.advance(event)
                if event.type:
                    yield event
                if event.type == CLOSING:
                    break
        except Unavailable as error:
            if not position.opened:
                raise
            notify(f"{error.message}; reconnecting")
        pause()
