"""A program that streams through a big file, again and again, as a scan or a backup does.

    python -m slackwater.demo.programs.stream --file FILE --mib-per-second 500 --out OUT

OUT gets a line a few times per second: the monotonic time and the bytes read so far.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from slackwater.demo.programs.reread import jittered

MIB = 1 << 20
_WRITE_SECONDS = 0.1
_CATCH_UP_SECONDS = 0.1
"""A late read is made up for by the next ones, as far as that."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes read until a moment in monotonic seconds."""

    at: float
    bytes: int


def stream(descriptor: int, mib_per_second: float, out: Path) -> None:
    """Read from begin to end, and again, until the process is stopped; at most at this pace."""
    total, written, dice = 0, 0.0, random.Random(1)
    buffer = bytearray(MIB)
    with out.open("w") as file:
        due = time.monotonic()
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due + jittered(1 / mib_per_second, dice), time.monotonic() - _CATCH_UP_SECONDS)
            got = os.readv(descriptor, [buffer])
            if not got:
                os.lseek(descriptor, 0, os.SEEK_SET)
            total += got
            if (now := time.monotonic()) - written >= _WRITE_SECONDS:
                file.write(f"{now:.6f} {total}\n")
                file.flush()
                written = now


def progress_of(out: Path) -> list[Progress]:
    """What was noted so far; a line that is still being written is left out."""
    text = out.read_text() if out.exists() else ""
    fields = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [Progress(float(at), int(total)) for at, total in fields]


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo: a job that streams through a file.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--mib-per-second", type=float, default=500.0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    stream(os.open(given.file, os.O_RDONLY), given.mib_per_second, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
