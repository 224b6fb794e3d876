"""A program whose memory grows, MiB by MiB, and that touches every page of it.

The file `out` has the MiB held so far, the slowest MiB of the growth in ms, and whether it is done. On SIGTERM the
progress is written to `checkpoint`, as a batch job with a grace period does, and the program ends by that signal, so
that its exit status in a shell is 143. A job that does not grow is one that holds what it has.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

MIB = 1 << 20
PAGE = 4096
_WRITE_SECONDS = 0.1


@dataclass(slots=True)
class Growth:
    """Memory held and how long the slowest MiB after the start took."""

    out: Path
    held: list[bytearray] = field(default_factory=list)
    slowest_ms: float = 0.0
    written: float = 0.0

    def grow(self) -> float:
        """Take one MiB and touch its pages; returns the seconds that it took."""
        began = time.perf_counter()
        block = bytearray(MIB)
        for place in range(0, MIB, PAGE):
            block[place] = 1
        self.held.append(block)
        return time.perf_counter() - began

    def write(self, *, done: bool = False, now: bool = True) -> None:
        if not now and time.monotonic() - self.written < _WRITE_SECONDS:
            return
        self.written = time.monotonic()
        draft = self.out.with_suffix(".tmp")
        draft.write_text(json.dumps({"mib": len(self.held), "slowest_ms": round(self.slowest_ms, 3), "done": done}))
        draft.rename(self.out)

    def run(self, start: int, end: int, per_second: float) -> None:
        """Take `start` MiB at once and then grow to `end`."""
        for _ in range(start):
            self.grow()
            self.write(now=False)
        self.write()
        began = time.monotonic()
        for number in range(1, end - start + 1):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            self.slowest_ms = max(self.slowest_ms, self.grow() * 1000)
            self.write(now=False)
        self.write(done=True)


def main(start: int, end: int, per_second: float, out: str, checkpoint: str) -> NoReturn:
    """Take `start` MiB at once, grow to `end`, and hold them."""
    growth = Growth(Path(out))

    def stop(number: int, _frame: object) -> None:
        Path(checkpoint).write_text(json.dumps({"mib": len(growth.held)}))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, stop)
    growth.run(start, end, per_second)
    while True:
        time.sleep(1)
