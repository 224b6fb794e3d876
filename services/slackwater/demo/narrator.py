"""Prints the progress of a run: one line per event and, on a terminal, a status line below that is updated."""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status

_PIPE_WIDTH = 120


def terminal() -> Console:
    """Returns a console as wide as the terminal; output to a pipe is as wide as the table."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


@dataclass(slots=True)
class Narrator:
    """Prints lines with the seconds since the start; without a terminal there is no status line."""

    console: Console = field(default_factory=terminal)
    began: float = field(default_factory=time.monotonic)
    _status: Status | None = None

    def __enter__(self) -> Narrator:
        if self.console.is_terminal:
            spinner = "dots" if self.console.encoding.startswith("utf") else "line"
            self._status = self.console.status("starting", spinner=spinner)
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def write_line(self, text: str) -> None:
        """Print one line with the seconds since the start, folded to the width of a terminal."""
        width = self.console.width if self.console.is_terminal else len(text) + 20
        line = f"{time.monotonic() - self.began:6.1f} s  {text}"
        for part in textwrap.wrap(line, max(width, 30), subsequent_indent=" " * 10, drop_whitespace=True) or [line]:
            self.console.print(part, markup=False)

    def doing(self, text: str) -> None:
        """Show what happens now: on a terminal the status line, else nothing."""
        if self._status is not None:
            self._status.update(f"{time.monotonic() - self.began:6.1f} s  {text}")
