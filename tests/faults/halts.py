"""Crash points: a process comes by named points, and stops at the armed one until it is killed or let go.

The harness arms one point at a time, kills a process while the point is held, and disarms it. A held process stands
still as a whole, its event loop included: nothing that it has not done yet can happen.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

VARIABLE = "FAULTS_HALTS"
"""Folder of the points, for processes that install them."""
_POLL_SECONDS = 0.005


class Halts:
    """The points of one folder, as a process of the scenario sees them."""

    def __init__(self, folder: Path) -> None:
        self._armed, self._held, self._passed = folder / "armed", folder / "held", folder / "passed.jsonl"

    def at(self, point: str) -> None:
        """Log that the process is here. Returns at once, unless the point is armed."""
        with self._passed.open("a") as log:
            log.write(json.dumps({"point": point, "pid": os.getpid(), "at": time.time()}) + "\n")
        arming = self._arming()
        if arming.partition(" ")[2] != point:
            return
        self._held.write_text(str(os.getpid()))
        while self._arming() == arming:  # not the same point armed again between two looks
            time.sleep(_POLL_SECONDS)

    def _arming(self) -> str:
        """Number and point; empty: nothing is armed."""
        try:
            return self._armed.read_text()
        except FileNotFoundError:
            return ""


class HaltSwitch:
    """The same, as the harness sees them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._armings = 0

    def arm(self, point: str) -> None:
        """The next process that comes by the point stops there."""
        (self.folder / "held").unlink(missing_ok=True)
        self._armings += 1
        fresh = self.folder / "armed.new"
        fresh.write_text(f"{self._armings} {point}")
        fresh.rename(self.folder / "armed")  # never seen half written

    def is_held(self) -> bool:
        """Whether a process stands at the armed point."""
        return (self.folder / "held").exists()

    def disarm(self) -> None:
        """Let go what stands there, and stop nothing any more."""
        (self.folder / "armed").unlink(missing_ok=True)

    def passed(self) -> set[str]:
        """Every point that a process came by."""
        path = self.folder / "passed.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return {str(json.loads(line)["point"]) for line in lines}
