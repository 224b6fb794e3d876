"""The load generator: an open loop with a fixed schedule, so that a slow service does not reduce the load.

Arrivals are a Poisson process, identical for the same seed. Latency counts from the intended send time, so that delays
in the generator or the service count as latency and no sample is missing. The file `out` gets a line per request: its
stretch, intended time (seconds of the machine's monotonic clock), latency in seconds, 1 or 0 for ok.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

_REQUEST = b"GET /quote HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n"
_SEED, _MOST_IN_FLIGHT = 7, 400
"""Requests that wait for an answer; those above it are sent later, and count from when they were meant to be sent."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the schedule: `rate` requests per second for `seconds`."""

    name: str
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: its stretch, intended send time (monotonic), latency in seconds, and whether it was answered."""

    stretch: str
    intended: float
    latency: float
    ok: bool


def arrivals(schedule: Sequence[Stretch], seed: int) -> Iterator[tuple[float, str]]:
    """(seconds from start, stretch name) of every request in ascending order: Poisson within each stretch."""
    start = 0.0
    for number, stretch in enumerate(schedule):
        source = random.Random(seed * 1_000_003 + number)
        at = start
        while stretch.rate > 0:
            at += source.expovariate(stretch.rate)
            if at >= start + stretch.seconds:
                break
            yield at, stretch.name
        start += stretch.seconds


def raise_priority() -> None:
    """Raise the scheduling priority of this process, where permitted, so that its own waits are not measured."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with contextlib.suppress(OSError):  # sessions are scheduled as groups: without this the line above has no effect
        Path("/proc/self/autogroup").write_text("-10")


class Generator:
    """Sends requests on schedule, each from a thread of its own, and writes a line per answer."""

    def __init__(self, port: int, patience_seconds: float) -> None:
        self._address = ("127.0.0.1", port)
        self._patience = patience_seconds
        self._writing = threading.Lock()

    def run(self, schedule: Sequence[Stretch], seed: int, start: float, out: TextIO) -> None:
        """Execute the schedule, then wait for the last answers, at most for the timeout."""
        with ThreadPoolExecutor(_MOST_IN_FLIGHT) as threads:
            for offset, name in arrivals(schedule, seed):
                time.sleep(max(0.0, start + offset - time.monotonic()))
                threads.submit(self._ask, name, start + offset, out)
            time.sleep(max(0.0, start + sum(stretch.seconds for stretch in schedule) - time.monotonic()))

    def _ask(self, name: str, intended: float, out: TextIO) -> None:
        is_ok = False
        with contextlib.suppress(OSError):
            left = intended + self._patience - time.monotonic()
            if left > 0:
                with socket.create_connection(self._address, left) as connection:
                    connection.sendall(_REQUEST)
                    is_ok = connection.recv(4096).startswith(b"HTTP/1.1 200")
        with self._writing:
            out.write(f"{name} {intended:.6f} {time.monotonic() - intended:.6f} {int(is_ok)}\n")
            out.flush()


def read_samples(path: Path) -> list[Sample]:
    """The requests that the generator has written so far, without an incomplete last line."""
    text = path.read_text() if path.exists() else ""
    fields = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [Sample(name, float(intended), float(latency), ok == "1") for name, intended, latency, ok in fields]


def main(port: int, schedule: Sequence[tuple[str, float, float]], start: float, patience: float, out: str) -> int:
    """Send what is scheduled from `start` on, by the monotonic clock (0: now). A request fails after `patience`."""
    raise_priority()
    with Path(out).open("w") as file:
        stretches = [Stretch(*stretch) for stretch in schedule]
        Generator(port, patience).run(stretches, _SEED, start or time.monotonic() + 0.05, file)
    return 0
