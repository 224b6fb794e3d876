"""The steps of a start: on a terminal the one that runs, and a line with its duration for each that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

SLOW_SECONDS = 5.0
"""A step that takes as long keeps its line: a reader then knows what the start waited for."""


class Steps:
    """Reports the progress of a start."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self._last = self._begin
        self._terminal = self._stream.isatty()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Time the block as a step. After a failure the line stays incomplete, because the error follows."""
        if self._terminal:
            self._write(f"  {title} …")
        begin = time.monotonic()
        yield
        self._line(title, time.monotonic() - begin)

    def done(self, title: str) -> None:
        """A step that ends now and began at the end of the previous one."""
        self._line(title, time.monotonic() - self._last)

    def write_line(self, text: str) -> None:
        """Print a line without a time."""
        self._write(f"{self._erase()}{text}\n")

    def total_seconds(self) -> float:
        return time.monotonic() - self._begin

    def _line(self, title: str, seconds: float) -> None:
        self._last = time.monotonic()
        line = f"  {title:<44} {seconds:5.2f} s\n" if seconds >= SLOW_SECONDS else ""
        self._write(f"{self._erase()}{line}")

    def _erase(self) -> str:
        return "\r\x1b[K" if self._terminal else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
