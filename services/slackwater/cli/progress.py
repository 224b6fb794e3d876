"""Progress of a long command: a bar on stderr, on a terminal only, removed at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        yield bar


class Stages:
    """One line with the current stage and its progress."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("beginning", total=None)

    def begin(self, what: str, steps: int | None) -> None:
        self._bar.reset(self._task, description=what, total=steps)

    def advance(self, steps: int) -> None:
        self._bar.advance(self._task, steps)
