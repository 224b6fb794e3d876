"""A program that reads a file block by block at a pace, again and again, and notes how long each block took.

In random order each pass reads every block once, so that the whole file is read within two passes after any moment, as
a service does that looks things up; in order it is a scan or a backup. The file `out` gets a line per read: the
monotonic time at its start and the seconds that it took. The first line is the read of the whole file.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

BLOCK_BYTES = 1 << 20
_WRITE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BlockRead:
    """One read of a block: monotonic seconds at its start, and the seconds that it took."""

    at: float
    seconds: float


def main(file: str, per_second: float, out: str, *, in_order: bool) -> NoReturn:
    """Read the whole file, then a block of 1 MiB so many times a second. A late read delays the following ones."""
    descriptor, dice, began = os.open(file, os.O_RDONLY), random.Random(1), time.monotonic()
    blocks = list(range(os.fstat(descriptor).st_size // BLOCK_BYTES))
    for block in blocks:
        os.pread(descriptor, BLOCK_BYTES, block * BLOCK_BYTES)
    due = written = time.monotonic()
    lines = [f"{began:.6f} {due - began:.7f}\n"]
    with Path(out).open("w") as notes:
        while True:
            if not in_order:
                dice.shuffle(blocks)
            for block in blocks:
                time.sleep(max(0.0, due - time.monotonic()))
                began = time.monotonic()
                os.pread(descriptor, BLOCK_BYTES, block * BLOCK_BYTES)
                ended = time.monotonic()
                lines.append(f"{began:.6f} {ended - began:.7f}\n")
                due = max(due + jittered(1 / per_second, dice), ended)
                if ended - written >= _WRITE_SECONDS:
                    notes.write("".join(lines))
                    notes.flush()
                    lines, written = [], ended


def jittered(seconds: float, dice: random.Random) -> float:
    """Returns a pause of this mean. Kernels that account CPU by ticks (250 a second) would see a program with a steady
    pace at every tick or at none: 0.6 CPU in a turn of the scene cache that no process had used."""
    return seconds * dice.uniform(0.5, 1.5)


def reads_of(out: Path) -> list[BlockRead]:
    """The reads of blocks noted so far, without that of the whole file and a line that is still being written."""
    text = out.read_text() if out.exists() else ""
    fields = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [BlockRead(float(at), float(seconds)) for at, seconds in fields][1:]
