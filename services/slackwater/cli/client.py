"""Readers of the read model for commands: a running instance over HTTP, or the data of a stopped one.

Both answer the same paths with the same JSON, so the commands do not depend on the source.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.cli.answers import Params, answer_of, given
from slackwater.cli.credentials import credentials
from slackwater.model.errors import InvalidInput, NotFound, Unavailable

if TYPE_CHECKING:
    import httpx2

SERVER_VARIABLE = "SLACKWATER_SERVER"
TIMEOUT_SECONDS = 10.0


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

    client: httpx2.Client
    live: bool = True
    advice: str = "is it running? (see `slackwater doctor`)"

    def get(self, path: str, params: Params | None = None) -> Any:
        import httpx2

        try:
            response = self.client.get(path, params=given(params))
        except httpx2.HTTPError as error:
            raise Unavailable(f"no answer from {self.client.base_url}: {error}; {self.advice}") from None
        return answer_of(response)

    def post(self, path: str, params: Params | None = None) -> Any:
        """POST to a path; returns the JSON of the answer. Raises the server's error."""
        return self.send("POST", path, params)

    def send(self, method: str, path: str, params: Params | None = None, body: object = None) -> Any:
        """Send a request with any method and a JSON body (None: no body); returns the JSON of the answer."""
        import httpx2

        try:
            response = self.client.request(method, path, params=given(params), json=body)
        except httpx2.HTTPError as error:
            raise Unavailable(
                f"no answer from {self.client.base_url}: {error}; check its effect before you repeat it"
            ) from None
        return answer_of(response)

    def follow(self, types: str) -> Iterator[Mapping[str, Any]]:
        import httpx2

        from slackwater.cli.event_stream import SILENCE_SECONDS, STREAM, parsed

        params = {"types": types, "brief": "true"}
        try:
            with self.client.stream("GET", STREAM, params=params, timeout=SILENCE_SECONDS) as response:
                if response.is_error:
                    response.read()
                    answer_of(response)
                for place, sent in enumerate(parsed(response.iter_lines())):
                    if sent.name or place == 0:  # the first event says only that the stream is open
                        yield sent.data
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unavailable(
                f"the stream of {self.client.base_url} ended: {why}; run the command again to continue"
            ) from None


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
    import httpx2

    proof = credentials()
    url, token = _address(server), proof.token()
    origin = "--server" if server else SERVER_VARIABLE
    remote = f"does it run there? (`slackwater doctor` on that machine); else correct {origin}" if url else ""
    if not url:
        from slackwater.runtime.state import StateDir, client_state_dir

        endpoint = StateDir(state_dir or client_state_dir()).running_endpoint()
        url, token = endpoint.http_url, token or endpoint.token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    verify = proof.verify(url)
    with httpx2.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=verify) as client:
        yield HttpReader(client, advice=remote) if remote else HttpReader(client)


def _address(server: str | None) -> str | None:
    """The address of `--server` or of its variable. Raises InvalidInput that names the source."""
    url = server or os.environ.get(SERVER_VARIABLE)
    if url and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        origin = "--server" if server else SERVER_VARIABLE
        raise InvalidInput(f"{origin}: {url!r} is not an address; use the form http://127.0.0.1:8460", field="server")
    return url


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
