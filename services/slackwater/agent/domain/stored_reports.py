"""Whether somebody who says how far he has read has read a report of this node: what renews its leases."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT_SECONDS = 300.0
"""Longer ago than this no writer may have heard a node last."""
SPACING_SECONDS = 1.0
"""Reports that follow each other closer than this need not all be known."""


@dataclass(slots=True)
class StoredReports:
    """Where our reports of the last minutes stand in the stream, and when they were published (monotonic seconds)."""

    _known: deque[tuple[int, float]] = field(default_factory=deque)

    def note(self, position: int, now: float) -> None:
        """The broker has stored one. A position before the last is that of a stream which began anew, where the
        earlier ones mean nothing."""
        known = self._known
        while known and (known[0][1] < now - KEPT_SECONDS or position < known[-1][0]):
            known.popleft()
        if not known or now - known[-1][1] >= SPACING_SECONDS:
            known.append((position, now))

    def is_read(self, up_to: int, within_seconds: float, now: float) -> bool:
        """Whether one that was published so recently stands at or before `up_to`."""
        return any(position <= up_to and now - at <= within_seconds for position, at in self._known)
