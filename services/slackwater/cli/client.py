"""Readers of the read model for commands: a running instance over HTTP, or the data of a stopped one.

Both answer the same paths with the same JSON, so the commands do not depend on the source.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.cli.credentials import credentials, token_origin
from slackwater.client.answers import Params
from slackwater.client.connection import (
    SERVER_VARIABLE,
    TIMEOUT_SECONDS,
    TOKEN_VARIABLE,
    ServerAccess,
    checked_address,
)
from slackwater.client.transport import NoAnswer, Transport
from slackwater.model.errors import Misconfigured, NotFound, SlackwaterError, Unavailable

if TYPE_CHECKING:
    import httpx2


class Reader(Protocol):
    """Reads the API. `get` raises the error that the server named; `live` says whether `follow` can deliver new
    events.
    """

    @property
    def live(self) -> bool:
        """Whether new events are possible."""
        ...

    def get(self, path: str, params: Params | None = None) -> Any:
        """The JSON behind a path below the server's root."""
        ...

    def follow(self, types: str) -> Iterator[Mapping[str, Any]]:
        """Yields an empty item once no later event can be missed, then the events of these types as they arrive, until
        the server ends the stream. Raises Unavailable when the connection is lost.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpReader:
    """Reads a running instance."""

    transport: Transport
    live: bool = True
    advice: str = "is it running? (see `slackwater doctor`)"

    def get(self, path: str, params: Params | None = None) -> Any:
        try:
            return self.transport.request("GET", path, params)
        except NoAnswer as error:
            raise Unavailable(f"{error.message}; {self.advice}") from None

    def post(self, path: str, params: Params | None = None) -> Any:
        """POST to a path; returns the JSON of the answer. Raises the server's error."""
        return self.send("POST", path, params)

    def send(self, method: str, path: str, params: Params | None = None, body: object = None) -> Any:
        """Send a request with any method and a JSON body (None: no body); returns the JSON of the answer."""
        return self.transport.request(method, path, params, body)

    def follow(self, types: str) -> Iterator[Mapping[str, Any]]:
        try:
            for place, event in enumerate(self.transport.read_stream({"types": types, "brief": "true"})):
                if event.type or place == 0:  # the first event says only that the stream is open
                    yield event.data
        except NoAnswer as error:
            raise Unavailable(f"{error.message}; run the command again to continue") from None


@contextlib.contextmanager
def reading(server: str | None = None, state_dir: Path | None = None) -> Iterator[Reader]:
    """A reader of `--server` or SLACKWATER_SERVER if given, else of the running instance of the state directory, else
    of the data that a stopped instance left.
    """
    from slackwater.runtime.state import StateDir, client_state_dir

    with contextlib.ExitStack() as stack:
        try:
            reader: Reader = stack.enter_context(running_instance(TIMEOUT_SECONDS, server, state_dir))
        except NotFound as error:
            state = StateDir(state_dir or client_state_dir())
            if state.holder() is not None:
                raise
            reader = stack.enter_context(stopped_instance(state.path, error.message))
        yield reader


@contextlib.contextmanager
def running_instance(timeout: float, server: str | None = None, state_dir: Path | None = None) -> Iterator[HttpReader]:
    """A reader of `--server` or SLACKWATER_SERVER if given, else of the running instance of the state directory.

    Raises NotFound when none runs there.
    """
    proof = credentials()
    url, token = _address(server), proof.token()
    origin = "--server" if server else SERVER_VARIABLE
    remote = f"does it run there? (`slackwater doctor` on that machine); else correct {origin}" if url else ""
    if not url:
        from slackwater.runtime.state import StateDir, client_state_dir

        endpoint = StateDir(state_dir or client_state_dir()).running_endpoint()
        url, token = endpoint.http_url, token or endpoint.token
    connection = ServerAccess(url, token, proof.verify(url), timeout)
    with contextlib.closing(Transport.open(connection, explain=with_token_advice)) as transport:
        yield HttpReader(transport, advice=remote) if remote else HttpReader(transport)


def with_token_advice(response: httpx2.Response, error: SlackwaterError) -> SlackwaterError:
    """The error of a server; one that refuses the token says where the token came from."""
    if response.status_code == 401:
        advice = _token_advice(sent="authorization" in response.request.headers)
        return Misconfigured(f"{error.message}{advice}", code=error.code)
    return error


def _token_advice(*, sent: bool) -> str:
    if not sent:
        return f"; give --token-file, or set {TOKEN_VARIABLE}"
    origin = token_origin()
    if origin is None:
        return "; it is the one in this state directory: see `slackwater doctor`"
    return f"; it was given by {origin}"


def _address(server: str | None) -> str | None:
    """The address of `--server` or of its variable. Raises InvalidInput that names the source."""
    url = server or os.environ.get(SERVER_VARIABLE)
    return checked_address(url, "--server" if server else SERVER_VARIABLE) if url else None


@contextlib.contextmanager
def stopped_instance(state_dir: Path, why_not_running: str) -> Iterator[Reader]:
    """Read the data that a stopped instance recorded. Raises NotFound when there is none."""
    if not (state_dir / "postgres" / "data").is_dir():
        raise NotFound(f"{why_not_running}; nothing is recorded in {state_dir}")
    from slackwater.cli.offline_reader import open_offline_reader
    from slackwater.cli.output import message
    from slackwater.runtime.state import DEMO

    with open_offline_reader(state_dir) as reader:
        whose = "the demo" if state_dir.name == DEMO else "the last one"
        message(f"no instance is running; this is what {whose} recorded")
        yield reader
