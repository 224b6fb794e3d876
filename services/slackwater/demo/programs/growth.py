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
from pathlib import Path
from typing import NoReturn

MIB = 1 << 20
PAGE = 4096
_WRITE_SECONDS = 0.1


def main(start: int, end: int, per_second: float, out: str, checkpoint: str) -> NoReturn:
    """Take `start` MiB at once, grow to `end`, and hold them."""
    held: list[bytearray] = []

    def stop(number: int, _frame: object) -> None:
        Path(checkpoint).write_text(json.dumps({"mib": len(held)}))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, stop)
    began, written, slowest = time.monotonic(), 0.0, 0.0
    for number in range(1, end + 1):
        if number <= start:
            began = time.monotonic()
        time.sleep(max(0.0, began + (number - start) / per_second - time.monotonic()))
        taken = time.perf_counter()
        held.append(_touched())
        slowest = max(slowest, time.perf_counter() - taken) if number > start else 0.0
        if time.monotonic() - written >= _WRITE_SECONDS:
            written = time.monotonic()
            _write(Path(out), number, slowest, done=False)
    _write(Path(out), len(held), slowest, done=True)
    while True:
        time.sleep(1)


def _touched() -> bytearray:
    """Returns a MiB of which every page is there."""
    block = bytearray(MIB)
    for place in range(0, MIB, PAGE):
        block[place] = 1
    return block


def _write(out: Path, mib: int, slowest: float, *, done: bool) -> None:
    draft = out.with_suffix(".tmp")
    draft.write_text(json.dumps({"mib": mib, "slowest_ms": round(slowest * 1000, 3), "done": done}))
    draft.rename(out)
