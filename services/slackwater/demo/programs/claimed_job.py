"""A job that counts its steps and keeps them when it has to end.

    python -m slackwater.demo.programs.claimed_job --out FILE --checkpoint FILE

OUT appears with the first step. On SIGTERM the steps are written to CHECKPOINT, and the job ends by that signal, so
that its exit status in a shell is 143.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

_STEP_SECONDS = 0.05
_BLOCK = bytes(1 << 16)


def work(out: Path, checkpoint: Path) -> None:
    """Count steps until SIGTERM. A step is short: quotas count what a job requests, not what it uses."""
    steps = 0

    def end(number: int, _frame: object) -> None:
        _replace(checkpoint, steps)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    digest = b""
    while True:
        digest = hashlib.sha256(digest + _BLOCK).digest()
        steps += 1
        if steps == 1:
            _replace(out, steps)
        time.sleep(_STEP_SECONDS)


def _replace(file: Path, steps: int) -> None:
    draft = file.with_name(f"{file.name}.tmp")
    draft.write_text(json.dumps({"steps": steps}))
    draft.rename(file)


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo: a job that keeps its steps at its end.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    given = parser.parse_args()
    work(given.out, given.checkpoint)
    return 0


if __name__ == "__main__":
    sys.exit(main())
