"""Shows a run while it goes on: one line that is rewritten on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final, TextIO

from tests.suite.results import TestResult

_TERMINAL_SECONDS: Final = 0.5
_PIPE_SECONDS: Final = 30.0


class Progress:
    """Counts outcomes. A failure is named at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = self._shown = time.monotonic()
        self._terminal = stream.isatty()
        self._outcomes: Counter[str] = Counter()

    def add(self, results: Iterable[TestResult]) -> None:
        for result in results:
            self._outcomes[result.outcome] += 1
            if result.outcome == "failed":
                self._clear()
                self._stream.write(f"  FAILED {result.name}\n")
                self._stream.flush()

    def show(self, lanes: int) -> None:
        """Show the counts if it is time for it."""
        now = time.monotonic()
        if now - self._shown < (_TERMINAL_SECONDS if self._terminal else _PIPE_SECONDS):
            return
        self._shown = now
        counts = ", ".join(f"{self._outcomes[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
        self._clear()
        self._stream.write(f"  {now - self._began:.0f} s, {lanes} lanes: {counts}{'' if self._terminal else chr(10)}")
        self._stream.flush()

    def end(self) -> None:
        self._clear()
        self._stream.flush()

    def _clear(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
