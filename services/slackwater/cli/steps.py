"""One line per step of a start, with the time it took; on a terminal the line is there from the step's beginning."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Steps:
    """Tells a person how far a start is."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self._last = self._begin
        self._terminal = self._stream.isatty()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A step that the block does. A failure leaves the line as it is: the error follows."""
        if self._terminal:
            self._write(f"  {title} …")
        begin = time.monotonic()
        yield
        self._line(title, time.monotonic() - begin)

    def done(self, title: str) -> None:
        """A step that ended now and began when the one before it ended."""
        self._line(title, time.monotonic() - self._last)

    def say(self, text: str) -> None:
        """A line without a time."""
        self._write(f"{self._erase()}{text}\n")

    def total_seconds(self) -> float:
        return time.monotonic() - self._begin

    def _line(self, title: str, seconds: float) -> None:
        self._last = time.monotonic()
        self._write(f"{self._erase()}  {title:<44} {seconds:5.2f} s\n")

    def _erase(self) -> str:
        return "\r\x1b[K" if self._terminal else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
