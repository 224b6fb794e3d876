"""A program that rereads a file: it reads it once, then block by block at a steady pace, and notes how long each took.

Each pass reads every block once in an order of its own, so that the whole file is read within two passes after any
moment: random blocks need five times as long to touch 99 % of it.

    python -m slackwater.demo.programs.reread --file FILE --per-second 800 --out OUT

OUT gets a line per read: the monotonic time at its start and the seconds that it took. The first line is the read of
the whole file.
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

MIB = 1 << 20
BLOCK_BYTES = 1 << 20
_WRITE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BlockRead:
    """One read of a block: monotonic seconds at its start, and the seconds that it took."""

    at: float
    seconds: float


def read_once(descriptor: int) -> int:
    """Read the file from begin to end; returns its bytes."""
    total = 0
    while block := os.read(descriptor, MIB):
        total += len(block)
    return total


def reread(descriptor: int, per_second: float, out: Path) -> None:
    """Read everything, then all blocks in a random order, and again, until the process is stopped. A late read delays
    the following ones."""
    dice, written, began = random.Random(1), 0.0, time.monotonic()
    order = list(range(read_once(descriptor) // BLOCK_BYTES))
    lines = [f"{began:.6f} {time.monotonic() - began:.7f}\n"]
    with out.open("w") as file:
        due = time.monotonic()
        for block in _passes(order, dice):
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


def _passes(order: list[int], dice: random.Random) -> Iterator[int]:
    while True:
        dice.shuffle(order)
        yield from order


def reads_of(out: Path) -> tuple[BlockRead | None, list[BlockRead]]:
    """The read of the whole file, and those of blocks noted so far; a line that is still being written is left out."""
    text = out.read_text() if out.exists() else ""
    fields = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    reads = [BlockRead(float(at), float(seconds)) for at, seconds in fields]
    return (reads[0] if reads else None), reads[1:]


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo: a service that rereads a file.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--per-second", type=float, default=800.0, help="reads of a block per second")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    reread(os.open(given.file, os.O_RDONLY), given.per_second, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
