"""The load: a schedule that cannot be slowed down, samples that survive a cut-off file."""

from __future__ import annotations

import io
import math
import socket
import threading
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.programs.load import Generator, Stretch, arrivals, read_samples


@given(st.integers(0, 1000), st.floats(0.1, 5), st.floats(0, 300))
def test_arrivals_rise_stay_in_their_stretch_and_repeat_by_seed(seed: int, seconds: float, rate: float) -> None:
    schedule = [Stretch("rest", 1.0, 10.0), Stretch("surge", seconds, rate)]
    found = list(arrivals(schedule, seed))
    assert found == list(arrivals(schedule, seed))
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert all((at < 1.0) == (name == "rest") for at, name in found)
    assert all(at < 1.0 + seconds for at, _ in found)


def test_arrivals_come_at_the_given_rate() -> None:
    count = len(list(arrivals([Stretch("surge", 100, 200)], seed=7)))
    assert abs(count - 20_000) < 5 * math.sqrt(20_000)


def test_a_stalled_server_is_seen_as_latency_of_every_request_meant_to_be_sent_meanwhile() -> None:
    """No coordinated omission: requests that fall into the stall count from their intended time."""
    listener = socket.create_server(("127.0.0.1", 0))
    stall = 0.4

    def serve() -> None:
        time.sleep(stall)
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    out = io.StringIO()
    began = time.monotonic()
    Generator(listener.getsockname()[1], 5.0).run([Stretch("surge", 0.3, 60)], 3, began, out)
    listener.close()
    expected = list(arrivals([Stretch("surge", 0.3, 60)], 3))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert len(lines) == len(expected)
    assert all(ok == "1" for *_, ok in lines)
    assert all(float(intended) - began + float(latency) >= stall - 0.02 for _, intended, latency, _ in lines)


def test_requests_without_a_server_are_errors_not_missing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    out = io.StringIO()
    Generator(port, 0.5).run([Stretch("surge", 0.1, 50)], 1, time.monotonic(), out)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(list(arrivals([Stretch("surge", 0.1, 50)], 1)))
    assert all(line.endswith(" 0") for line in lines)


def test_a_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("surge 1.000000 0.010000 1\nsurge 2.000000 0.0200")
    assert [sample.latency for sample in read_samples(file)] == [0.01]
