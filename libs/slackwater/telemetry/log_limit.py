"""Limits log lines of one kind per minute and counts the rest, as the kernel's printk_ratelimit does."""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

BURST, INTERVAL_SECONDS, KINDS = 5, 60.0, 1000
"""Lines of a kind written per interval. More kinds than KINDS are texts with data in them: they start anew."""
LOOK_SECONDS = 1.0
"""Interval between looks for kinds that have ended, and the time after its interval in which a kind has none."""
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class _Kind:
    began: float
    written: int = 0
    suppressed: int = 0
    example: logging.LogRecord | None = None
    """The first line left out in this interval."""


class LineLimit(logging.Filter):
    """Keeps the first lines of a kind in each interval: of a logger, level and event, or where libraries log, of a
    text's first line without its numbers. The first one of a later interval carries the number of lines left out before
    it as `suppressed`. If none comes, `write` gets a line with the count instead, with the next line of any kind. Lines
    below `warning` all pass.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        write: Callable[[logging.LogRecord], None] = lambda record: None,
    ) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._write = write
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._looked = monotonic()

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether to write the line."""
        now = self._monotonic()
        is_written = record.levelno < logging.WARNING or self._admit(record, now)
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._write_counts(now)
        return is_written

    def _admit(self, record: logging.LogRecord, now: float) -> bool:
        if len(self._kinds) > KINDS:
            self._kinds.clear()
        kind = self._kinds.setdefault((record.name, record.levelno, _event_of(record)), _Kind(now))
        if now - kind.began >= INTERVAL_SECONDS:
            _add_count(record, kind.suppressed)
            kind.began, kind.written, kind.suppressed, kind.example = now, 0, 0, None
        is_written = kind.written < BURST
        kind.written += is_written
        kind.suppressed += not is_written
        if kind.suppressed == 1 and kind.example is None:
            kind.example = _without_traceback(record)
        return is_written

    def _write_counts(self, now: float) -> None:
        """Write the counts of kinds that have ended, and forget these kinds."""
        for key, kind in list(self._kinds.items()):
            if now - kind.began < INTERVAL_SECONDS + LOOK_SECONDS:
                continue
            self._kinds.pop(key, None)
            if kind.example is not None:
                _add_count(kind.example, kind.suppressed - 1)
                self._write(kind.example)


def _event_of(record: logging.LogRecord) -> str:
    if isinstance(record.msg, dict):
        return str(record.msg.get("event"))
    return _NUMBER.sub("0", str(record.msg).partition("\n")[0])


def _without_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """Returns a copy that keeps no frames alive."""
    duplicate = copy.copy(record)
    duplicate.exc_info = None
    return duplicate


def _add_count(record: logging.LogRecord, suppressed: int) -> None:
    if not suppressed:
        return
    if isinstance(record.msg, dict):
        record.msg = {**record.msg, "suppressed": suppressed}
    else:
        record.suppressed = suppressed
