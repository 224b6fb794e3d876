"""`slackwater nats-reload` beside a nats-server: a renewed certificate is served without a restart."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.runtime.authority import Authority
from slackwater.runtime.embedded_nats import find_nats_server

CONFIGURATION = """\
host: 127.0.0.1
port: {port}
tls {{ cert_file: "{folder}/tls.crt", key_file: "{folder}/tls.key" }}
"""
pytestmark = pytest.mark.timeout(120)


def served(port: int, authority: Path) -> int:
    """The serial number of the certificate that the broker shows; 0 while it does not answer."""
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            plain.recv(4096)  # INFO, before TLS
            with context.wrap_socket(plain, server_hostname="nats") as secured:
                found = secured.getpeercert()
    except OSError:
        return 0
    return int(str((found or {})["serialNumber"]), 16)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_renewed_certificate_is_served_by_the_same_process(tmp_path: Path) -> None:
    folder, pid_file = tmp_path / "etc", tmp_path / "nats.pid"
    folder.mkdir()
    authority = Authority(tmp_path / "ca")
    authority.issue(folder / "tls.crt", folder / "tls.key", ["nats"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    (folder / "nats-server.conf").write_text(CONFIGURATION.format(port=port, folder=folder))
    reload = [sys.executable, "-m", "slackwater.cli", "nats-reload", str(folder), "--pid-file", str(pid_file)]
    server = [str(find_nats_server()), "--config", str(folder / "nats-server.conf"), "--pid", str(pid_file)]
    with (
        subprocess.Popen([*reload, "--every-seconds", "0.1"], stderr=subprocess.DEVNULL) as beside,
        subprocess.Popen(server, stderr=subprocess.DEVNULL) as broker,
    ):
        try:
            until(lambda: served(port, tmp_path / "ca" / "ca.crt") != 0)
            before = served(port, tmp_path / "ca" / "ca.crt")
            authority.issue(folder / "tls.crt", folder / "tls.key", ["nats"])
            until(lambda: served(port, tmp_path / "ca" / "ca.crt") not in (0, before))
            assert broker.poll() is None
        finally:
            broker.terminate()
            beside.terminate()
