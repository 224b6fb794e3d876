"""The batch workload: compresses and hashes blocks at full speed.

    python -m slackwater.demo.programs.batch --processes 2

It uses all CPU time that it is given.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import zlib

from slackwater.runtime.parent_death import die_with_parent

_BLOCK = " ".join(f"{n * 2654435761 % 99991:x}" for n in range(45_000)).encode()


def crunch(block: bytes, seed: bytes) -> bytes:
    """One block of work of about 10 ms; the next block depends on the result."""
    return hashlib.sha256(zlib.compress(seed + block, 6)).digest()


def run(processes: int) -> int:
    """Compute until SIGTERM or SIGINT, then exit with 0."""
    children = []
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            seed = bytes(32)
            while True:
                seed = crunch(_BLOCK, seed)
        children.append(pid)

    def stop(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        while True:
            signal.pause()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo batch job: compress and hash, greedily.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return run(parser.parse_args().processes)


if __name__ == "__main__":
    sys.exit(main())
