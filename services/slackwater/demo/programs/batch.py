"""The batch workload: compresses and hashes blocks at full speed. It uses all CPU time that it is given."""

from __future__ import annotations

import hashlib
import signal
import zlib
from typing import NoReturn

from slackwater.demo.programs.workers import start_workers

_BLOCK = " ".join(f"{n * 2654435761 % 99991:x}" for n in range(45_000)).encode()


def crunch() -> NoReturn:
    """Work in blocks of about 10 ms; each depends on the result of the one before."""
    seed = bytes(32)
    while True:
        seed = hashlib.sha256(zlib.compress(seed + _BLOCK, 6)).digest()


def main(processes: int) -> NoReturn:
    """Compute until SIGTERM or SIGINT, then exit with 0."""
    start_workers(processes, crunch)
    while True:
        signal.pause()
