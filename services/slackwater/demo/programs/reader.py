"""A program that reads a file block by block at a pace, again and again, and notes how long each block took.

    python -m slackwater.demo.programs.reader --file FILE --per-second 800 --order random --out OUT

In random order each pass reads every block once, so that the whole file is read within two passes after any moment, as
a service does that looks things up; in order it is a scan or a backup. OUT gets a line per read: the monotonic time at
its start and the seconds that it took. The first line is the read of the whole file.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK_BYTES = 1 << 20
_WRITE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BlockRead:
    """One read of a block: monotonic seconds at its start, and the seconds that it took."""

    at: float
    seconds: float


def reread(descriptor: int, per_second: float, out: Path, *, in_order: bool) -> None:
    """Read everything, then block by block until the process is stopped. A late read delays the following ones."""
    dice, written, began = random.Random(1), 0.0, time.monotonic()
    blocks = 0
    while os.pread(descriptor, BLOCK_BYTES, blocks * BLOCK_BYTES):
        blocks += 1
    lines = [f"{began:.6f} {time.monotonic() - began:.7f}\n"]
    with out.open("w") as file:
        due = time.monotonic()
        for block in _passes(list(range(blocks)), None if in_order else dice):
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            os.pread(descriptor, BLOCK_BYTES, block * BLOCK_BYTES)
            ended = time.monotonic()
            lines.append(f"{began:.6f} {ended - began:.7f}\n")
            due = max(due + jittered(1 / per_second, dice), ended)
            if ended - written >= _WRITE_SECONDS:
                file.write("".join(lines))
                file.flush()
                lines, written = [], ended


def jittered(seconds: float, dice: random.Random) -> float:
    """Returns a pause of this mean. Kernels that account CPU by ticks (250 a second) would see a program with a steady
    pace at every tick or at none: 0.6 CPU in a turn of the scene cache that no process had used."""
    return seconds * dice.uniform(0.5, 1.5)


def _passes(order: list[int], dice: random.Random | None) -> Iterator[int]:
    while True:
        if dice is not None:
            dice.shuffle(order)
        yield from order


def reads_of(out: Path) -> list[BlockRead]:
    """The reads of blocks noted so far, without that of the whole file and a line that is still being written."""
    text = out.read_text() if out.exists() else ""
    fields = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [BlockRead(float(at), float(seconds)) for at, seconds in fields][1:]


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo: a program that rereads a file.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--per-second", type=float, default=800.0, help="reads of a block of 1 MiB per second")
    parser.add_argument("--order", choices=("random", "sequential"), default="random")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    descriptor = os.open(given.file, os.O_RDONLY)
    reread(descriptor, given.per_second, given.out, in_order=given.order == "sequential")
    return 0


if __name__ == "__main__":
    sys.exit(main())
