"""Requests that are never sent whole, for every route of the API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.contract.described import filled, operations


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """What is sent at once, and the byte that then drips; empty: nothing more comes."""

    what: str
    first: bytes
    drip: bytes = b""


def slow_requests(authorization: str = "") -> Iterator[SlowRequest]:
    """Of each route: half a head, a head in drips, half a body, a body in drips; and what sends nothing."""
    given = f"Authorization: {authorization}\r\n" if authorization else ""
    for name, (method, path, operation) in operations().items():
        head = f"{method.upper()} {filled(path)} HTTP/1.1\r\nHost: 127.0.0.1\r\n{given}".encode()
        yield SlowRequest(f"{name}: half a head", head + b"X-Slow: ")
        yield SlowRequest(f"{name}: a head in drips", head + b"X-Slow: ", b"x")
        if "requestBody" in operation:
            body = head + b'Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"half'
            yield SlowRequest(f"{name}: half a body", body)
            yield SlowRequest(f"{name}: a body in drips", body, b" ")
    yield SlowRequest("nothing", b"")
    yield SlowRequest("idle", b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
