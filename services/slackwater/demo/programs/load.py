"""The load generator: an open loop with a fixed schedule, so that a slow service does not reduce the load.

    python -m slackwater.demo.programs.load --port P --schedule rest:3:20,surge:10:200 --seed 7 --out FILE

Arrivals are a Poisson process, identical for the same seed. Latency counts from the intended send time, so that delays
in the generator or the service count as latency and no sample is missing. FILE gets one line per request: phase,
intended time (seconds of the machine's monotonic clock), latency in seconds, 1 or 0 for ok.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

_REQUEST = b"GET /quote HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n"
_MOST_IN_FLIGHT = 400
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


def parse_schedule(text: str) -> list[Stretch]:
    """The stretches of `rest:3:20,surge:10:200`. Raises ValueError with the invalid part."""
    stretches = []
    for part in text.split(","):
        try:
            name, seconds, rate = part.split(":")
            stretch = Stretch(name, float(seconds), float(rate))
        except ValueError:
            raise ValueError(f"schedule: {part!r} is not NAME:SECONDS:RATE") from None
        if not all(math.isfinite(value) and value >= 0 for value in (stretch.seconds, stretch.rate)):
            raise ValueError(f"schedule: {part!r} needs finite seconds and rate, neither negative")
        stretches.append(stretch)
    return stretches


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


def percentile(values: Sequence[float], q: float) -> float:
    """Nearest rank: the smallest value that has at least the share `q` (0..1] at or below it; NaN if empty."""
    if not values:
        return math.nan
    rank = max(1, math.ceil(q * len(values) - 1e-9))
    return sorted(values)[rank - 1]


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
    samples = []
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            name, intended, latency, ok = line.split()
            samples.append(Sample(name, float(intended), float(latency), ok == "1"))
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo load: an open loop of HTTP requests.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--schedule", required=True, help="NAME:SECONDS:RATE, separated by commas")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--start", type=float, default=0.0, help="monotonic time to begin at; 0 is now")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds after which a request has failed")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    schedule = parse_schedule(given.schedule)
    raise_priority()
    with given.out.open("w") as out:
        Generator(given.port, given.patience).run(schedule, given.seed, given.start or time.monotonic() + 0.05, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
