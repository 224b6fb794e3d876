"""Every REST route with requests that are never sent whole: each ends in time, others are answered meanwhile."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import httpx2
import pytest
from slow import SlowRequest, slow_requests
from whole_server import TOKEN, WholeServer

AT_ONCE = 120
DRIP_SECONDS, PROBE_SECONDS, PATIENCE_SECONDS = 0.1, 0.3, 60.0
SHORT = {
    "SLACKWATER_HTTP_HEADER_SECONDS": "1",
    "SLACKWATER_HTTP_BODY_SECONDS": "1",
    "SLACKWATER_HTTP_IDLE_SECONDS": "1",
}
LATE = b"HTTP/1.1 408 "
REQUESTS = list(slow_requests(f"Bearer {TOKEN}"))
"""Of every route: half heads and, where it takes one, half bodies."""


@pytest.fixture(scope="module")
def hasty(postgres_dsn: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeServer]:
    """A server that waits a second for each part of a request."""
    database = urlsplit(postgres_dsn)._replace(path="/slow_requests").geturl()
    with pytest.MonkeyPatch.context() as environment:
        for name, seconds in SHORT.items():
            environment.setenv(name, seconds)
        with WholeServer(database, nats_url, tmp_path_factory.mktemp("state")) as running:
            yield running


def test_every_half_request_ends_and_others_are_answered(hasty: WholeServer) -> None:
    where = urlsplit(hasty.url)
    wrong = []
    with httpx2.Client(base_url=hasty.url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        for first in range(0, len(REQUESTS), AT_ONCE):
            requests = REQUESTS[first : first + AT_ONCE]
            answers = answers_to(requests, where.hostname or "", where.port or 0, client)
            wrong += [f"{one.what}: {said[:60]!r}" for one, said in zip(requests, answers, strict=True)
                      if not is_an_end(one, said)]  # fmt: skip
    assert not wrong, f"{len(wrong)} of {len(REQUESTS)}:\n" + "\n".join(wrong[:20])


def is_an_end(request: SlowRequest, said: bytes | None) -> bool:
    """Whether the connection was closed, with the answer that this request must have: one without its body may be
    refused before the body is late, and must not be accepted."""
    if said is None:
        return False
    if request.what.endswith(("head", "head in drips")):
        return said.startswith(LATE)
    if request.what.endswith(("body", "body in drips")):
        return said.startswith((LATE, b"HTTP/1.1 4"))
    return said == b"" or said.startswith(b"HTTP/1.1 200 ")


def answers_to(requests: Sequence[SlowRequest], host: str, port: int, client: httpx2.Client) -> list[bytes | None]:
    """All that the server sent on each connection until it closed it; None for one that it left open."""
    received: list[bytes] = [b""] * len(requests)
    with selectors.DefaultSelector() as selector:
        for number, request in enumerate(requests):
            connection = socket.create_connection((host, port), PATIENCE_SECONDS)
            connection.sendall(request.first)
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, number)
        began = probed = dripped = time.monotonic()
        while selector.get_map() and (now := time.monotonic()) - began < PATIENCE_SECONDS:
            if now - probed > PROBE_SECONDS:
                assert client.get("/livez", headers={"connection": "close"}).status_code == 200
                probed = now
            if now - dripped > DRIP_SECONDS:
                drip(requests, selector)
                dripped = now
            for key, _ in selector.select(DRIP_SECONDS):
                assert isinstance(key.fileobj, socket.socket)
                data = part_of(key.fileobj)
                received[key.data] += data
                if not data:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
        left = {key.data for key in selector.get_map().values()}
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
    return [None if number in left else said for number, said in enumerate(received)]


def drip(requests: Sequence[SlowRequest], selector: selectors.BaseSelector) -> None:
    """One more byte on each connection whose request goes on."""
    for key in selector.get_map().values():
        assert isinstance(key.fileobj, socket.socket)
        try:
            key.fileobj.send(requests[key.data].drip)
        except OSError:
            continue  # the server has closed it; what it sent is read next


def part_of(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""
