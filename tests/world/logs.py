"""Log lines of the services that report an error: steps of the record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.world.trace import Kind

_LONGEST_LINE = 4000


class ErrorLines(logging.Handler):
    """Records each line of level error."""

    def __init__(self, record: Callable[..., None]) -> None:
        super().__init__(logging.ERROR)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self._record(Kind.LOGGED, record.name, detail={"line": line[:_LONGEST_LINE]})


@contextmanager
def recorded_errors(record: Callable[..., None], *, shows_all: bool) -> Iterator[None]:
    """Record errors while the context is open; `shows_all` writes every other line to stderr as well."""
    handler, root = ErrorLines(record), logging.getLogger()
    shown = logging.StreamHandler()
    logging.disable(logging.NOTSET if shows_all else logging.WARNING)
    root.addHandler(handler)
    if shows_all:
        root.addHandler(shown)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.removeHandler(shown)
        logging.disable(logging.NOTSET)
