"""Connections without a whole request, over real sockets, against a process with few descriptors."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from broker_scene import pki

DESCRIPTORS = 128
LIMIT = DESCRIPTORS // 4
FLOOD = 300
PATIENCE_SECONDS = 60.0
TOKEN = "open sesame"  # noqa: S105 - of this test
BEARER = {"authorization": f"Bearer {TOKEN}"}
SHORT = {
    "SLACKWATER_HTTP_HEADER_SECONDS": "1",
    "SLACKWATER_HTTP_BODY_SECONDS": "1",
    "SLACKWATER_HTTP_IDLE_SECONDS": "1",
}
HALF_A_HEAD = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /change HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer open sesame\r\nContent-Length: 1000\r\n\r\nhalf"
)


@dataclass(frozen=True, slots=True)
class Small:
    """The server's process, its URL, and what it logs."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def connect(self) -> socket.socket:
        parts = urlsplit(self.url)
        return socket.create_connection((parts.hostname, parts.port or 0), PATIENCE_SECONDS)

    def open_descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def log_lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@contextmanager
def small_server(folder: Path, dsn: str, settings: Mapping[str, str]) -> Iterator[Small]:
    given = {"SLACKWATER_HTTP_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    command = [sys.executable, str(Path(__file__).with_name("small_server.py")), str(DESCRIPTORS), dsn]
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, env=os.environ | given, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        yield Small(process, process.stdout.readline().strip(), log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def descriptors_of_the_flood() -> Iterator[None]:
    """Lets this process hold the flood's sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answer_of(connection: socket.socket) -> bytes:
    """All that is sent until the server closes the connection."""
    received = b""
    connection.settimeout(PATIENCE_SECONDS)
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "half a head", "half a body"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_flood_of_half_requests_takes_neither_the_probes_nor_postgresql(
    sent: bytes, tls: bool, tmp_path: Path, postgres_dsn: str, descriptors_of_the_flood: None
) -> None:
    trusted = pki(tmp_path / "pki")
    certificate, key = trusted.issue("127.0.0.1")
    files = {"SLACKWATER_HTTP_TLS_CERTIFICATE": str(certificate), "SLACKWATER_HTTP_TLS_KEY": str(key)}
    verify = ssl.create_default_context(cafile=trusted.ca) if tls else True
    with (
        small_server(tmp_path, postgres_dsn, files if tls else {}) as server,
        httpx2.Client(base_url=server.url, verify=verify, trust_env=False, timeout=PATIENCE_SECONDS) as client,
        ExitStack() as flood,
    ):
        slowest = 0.0
        for number in range(FLOOD):
            connection = flood.enter_context(server.connect())
            connection.sendall(sent)  # no TLS record, where the server waits for one: as half-sent as it can be
            if number % 50 == 49:
                for path in ("/livez", "/readyz", "/postgres"):
                    began = time.monotonic()
                    assert client.get(path, headers=BEARER | {"connection": "close"}).status_code == 200, path
                    slowest = max(slowest, time.monotonic() - began)
                assert server.open_descriptors() < LIMIT + 32
        assert slowest < 10.0
        assert len(server.log_lines()) < 30, server.log_lines()[:10]


def test_late_requests_are_closed_and_streams_stay(tmp_path: Path, postgres_dsn: str) -> None:
    with (
        small_server(tmp_path, postgres_dsn, SHORT) as server,
        httpx2.Client(base_url=server.url, trust_env=False, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", "/stream", headers=BEARER) as stream,
    ):
        ticks = stream.iter_lines()
        assert next(ticks) == "data: tick"
        began = time.monotonic()
        with server.connect() as silent, server.connect() as head, server.connect() as body, server.connect() as idle:
            head.sendall(HALF_A_HEAD)
            body.sendall(HALF_A_BODY)
            idle.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer_of(silent) == b""
            assert b"408 Request Timeout" in (late := answer_of(head))
            assert b'"code":"request_timeout"' in late
            assert b"408 Request Timeout" in answer_of(body)
            assert answer_of(idle).startswith(b"HTTP/1.1 200 OK")
        with server.connect() as drip:
            dripped = drips_until_closed(drip)
        assert 1.0 <= time.monotonic() - began < PATIENCE_SECONDS
        assert dripped < PATIENCE_SECONDS / 2
        for _ in range(30):
            assert next(ticks) in ("data: tick", "")
        assert server.log_lines() == []


def drips_until_closed(connection: socket.socket) -> float:
    """How long a request lives that gets a byte every tenth of a second."""
    connection.sendall(HALF_A_HEAD)
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.1)
        try:
            connection.sendall(b"x")
        except OSError:
            break
    return time.monotonic() - began
