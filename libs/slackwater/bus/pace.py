"""How fast a reader works, and from that how many seconds of its own work wait for it.

The best of the last batches counts: one that waited for an absent database says nothing about how fast we are, and
who was away for long but is fast must not be taken for one who can never catch up.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 16
LEAST = 4
"""So many batches must have been seen before anything is said."""


class Pace:
    """Of one consumer. `worth` is the size from which a batch says something: small ones cost mostly themselves."""

    def __init__(self, worth: int) -> None:
        self._worth = max(1, worth)
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def handled(self, messages: int, seconds: float) -> None:
        """A batch of so many took so long."""
        if messages >= self._worth:
            self._seconds.append(seconds / messages)

    def behind_seconds(self, waiting: int) -> float:
        """How long `waiting` messages will take us; 0 as long as we do not know our pace."""
        return waiting * min(self._seconds) if len(self._seconds) >= LEAST else 0.0
