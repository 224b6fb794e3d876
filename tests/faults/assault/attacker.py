"""What every attack has: its aim, its counts, its pace, and a connection to the broker that waits for nothing."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.connect.access import read_credentials

LOWEST = 19
SEND_SECONDS = 5
_CHUNK = 1 << 16
_REFUSAL = re.compile(rb"-ERR '([^'\r\n]*)")
_SHOWN = re.compile(r"[\"0-9].*| to .*| for .*")
"""What a refusal names beside its kind: subjects and numbers."""


@dataclass(frozen=True)
class Aim:
    """The broker with an agent's credentials, the services' HTTP, and the nodes of honest agents."""

    node: str
    nats: str
    user: str
    credentials_file: Path
    services: Mapping[str, str]
    honest: Sequence[str]
    seconds: float

    @cached_property
    def credentials(self) -> UserCredentials:
        return read_credentials(self.credentials_file)


@dataclass(slots=True)
class Counts:
    """What was sent (messages, requests or connections), its bytes, and what was answered, by kind."""

    sent: int = 0
    bytes: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, size: int, sent: int = 1) -> None:
        self.sent += sent
        self.bytes += size


def paced(per_second: float, seconds: float) -> Iterator[int]:
    """Numbers at a fixed rate until the time is over. What is behind is not made up for."""
    began, number, due = time.monotonic(), 0, time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        if due > now:
            time.sleep(min(due - now, began + seconds - now))
            continue
        yield number
        number, due = number + 1, max(due, now - 0.1) + 1 / per_second


def lower_weight() -> None:
    """The lowest CPU weight, also beside other sessions: an attacker uses another machine's CPU."""
    os.nice(LOWEST)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(LOWEST))


def frame(subject: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """One message in the broker's protocol."""
    block = ("NATS/1.0\r\n" + "".join(f"{name}: {text}\r\n" for name, text in headers.items()) + "\r\n").encode()
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject.encode(), len(block), len(block) + len(body), block, body)


class RawConnection:
    """A connection to the broker that sends without waiting for answers. Refusals are counted; it connects again."""

    def __init__(self, aim: Aim, counts: Counts) -> None:
        self._aim = aim
        self._counts = counts
        self._socket: socket.socket | None = None

    def send(self, frames: bytes, messages: int = 1) -> None:
        """Send whole frames, over a new connection if the broker has ended the last one."""
        try:
            connection = self._socket or self.connect()
            connection.sendall(frames)
        except OSError:
            self.close()
            self._counts.answers["connection ended"] += 1
            time.sleep(0.05)
            return
        self._counts.add(len(frames), messages)
        self.drain()

    def connect(self) -> socket.socket:
        """A new connection with the agent's credentials, to which the broker need not have answered yet."""
        self._socket = connection = connected(self._aim.nats)
        credentials = self._aim.credentials
        nonce = json.loads(connection.recv(_CHUNK).partition(b"\r\n")[0].removeprefix(b"INFO "))["nonce"]
        options = {"verbose": False, "pedantic": False, "headers": True, "name": "attacker", "lang": "raw",
                   "version": "0", "jwt": credentials.token, "sig": credentials.answer(nonce).decode()}  # fmt: skip
        connection.sendall(b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode())
        return connection

    def drain(self) -> None:
        """Read what has arrived, and count refusals."""
        if self._socket is None:
            return
        try:
            while data := self._socket.recv(_CHUNK, socket.MSG_DONTWAIT):
                count_refusals(data, self._counts)
                if b"PING\r\n" in data:
                    self._socket.sendall(b"PONG\r\n")
            self.close()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def connected(url: str) -> socket.socket:
    """A connection to the host and port of a URL that gives up what cannot be sent in time."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), SEND_SECONDS)
    connection.settimeout(None)  # with one, what is read at once would wait for it
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
    return connection


def count_refusals(data: bytes, counts: Counts) -> None:
    """Count the broker's refusals in what it sent, by kind."""
    for text in _REFUSAL.findall(data):
        counts.answers[_SHOWN.sub("", text.decode(errors="replace")).strip().lower()] += 1
