"""Tracks which of this node's reports a consumer has read, by stream position.

Only a consumer that has read one recently may renew a lease.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT_SECONDS = 300.0
"""The longest time since the last report that a renewal may allow."""
SPACING_SECONDS = 1.0
"""Of reports closer together than this only one is kept."""


@dataclass(slots=True)
class StoredReports:
    """Stream positions of the last minutes' reports, with their publication times in monotonic seconds."""

    _known: deque[tuple[int, float]] = field(default_factory=deque)

    def add(self, position: int, now: float) -> None:
        """Record a stored report. A position before the last one means that the stream was created anew, so that the
        earlier positions are void."""
        known = self._known
        while known and (known[0][1] < now - KEPT_SECONDS or position < known[-1][0]):
            known.popleft()
        if not known or now - known[-1][1] >= SPACING_SECONDS:
            known.append((position, now))

    def is_read(self, up_to: int, within_seconds: float, now: float) -> bool:
        """Whether a report published within `within_seconds` is at or before position `up_to`."""
        return any(position <= up_to and now - at <= within_seconds for position, at in self._known)
