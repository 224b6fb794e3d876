"""Limits log lines of one kind per minute and counts the rest, as the kernel's printk_ratelimit does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

BURST, INTERVAL_SECONDS, KINDS = 5, 60.0, 1000
"""Lines of a kind written per interval. More kinds than KINDS are texts with data in them: they start anew."""


@dataclass(slots=True)
class _Kind:
    began: float
    written: int = 0
    suppressed: int = 0


class LineLimit(logging.Filter):
    """Keeps the first lines of a kind (logger, level, event) in each interval. The first one of a later interval
    carries the number of lines left out before it as `suppressed`. Lines below `warning` all pass."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether to write the line."""
        if record.levelno < logging.WARNING:
            return True
        fields = record.msg if isinstance(record.msg, dict) else None
        key = (record.name, record.levelno, str(record.msg if fields is None else fields.get("event")))
        now = self._monotonic()
        if len(self._kinds) > KINDS:
            self._kinds.clear()
        kind = self._kinds.setdefault(key, _Kind(now))
        if now - kind.began >= INTERVAL_SECONDS:
            self._add_count(record, kind.suppressed)
            kind.began, kind.written, kind.suppressed = now, 0, 0
        is_written = kind.written < BURST
        kind.written += is_written
        kind.suppressed += not is_written
        return is_written

    @staticmethod
    def _add_count(record: logging.LogRecord, suppressed: int) -> None:
        if not suppressed:
            return
        if isinstance(record.msg, dict):
            record.msg = {**record.msg, "suppressed": suppressed}
        else:
            record.suppressed = suppressed
