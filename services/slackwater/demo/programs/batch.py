"""The batch workload: compresses and hashes blocks at full speed and counts them.

    python -m slackwater.demo.programs.batch --processes 2 [--progress FILE]

It uses all CPU time that it is given. Progress (blocks done by all processes) is written to FILE twice a second, which
shows the cost of throttling in blocks of the batch job.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import signal
import struct
import sys
import time
import zlib
from pathlib import Path

from slackwater.runtime.parent_death import die_with_parent

_BLOCK = " ".join(f"{n * 2654435761 % 99991:x}" for n in range(45_000)).encode()
_COUNTER = struct.Struct("<Q")


def crunch(block: bytes, seed: bytes) -> bytes:
    """One block of work of about 10 ms; the next block depends on the result."""
    return hashlib.sha256(zlib.compress(seed + block, 6)).digest()


def _burn(counters: mmap.mmap, slot: int) -> None:
    seed, done = bytes(32), 0
    while True:
        seed = crunch(_BLOCK, seed)
        done += 1
        _COUNTER.pack_into(counters, slot * _COUNTER.size, done)


def run(processes: int, progress: Path | None) -> int:
    """Compute until SIGTERM or SIGINT, then exit with 0."""
    counters = mmap.mmap(-1, processes * _COUNTER.size)
    children = []
    for slot in range(processes):
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            _burn(counters, slot)
        children.append(pid)

    def stop(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        while True:
            time.sleep(0.5)
            if progress is not None:
                blocks = sum(_COUNTER.unpack_from(counters, n * _COUNTER.size)[0] for n in range(processes))
                progress.write_text(f"{blocks}\n")
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo batch job: compress and hash, greedily.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--progress", type=Path, help="file to write the number of finished blocks to")
    given = parser.parse_args()
    return run(given.processes, given.progress)


if __name__ == "__main__":
    sys.exit(main())
