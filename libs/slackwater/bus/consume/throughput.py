"""Measures a reader's throughput, and derives how many seconds of work its backlog is.

The best of the recent batches counts. A batch that waited for an unavailable database says nothing
about the throughput, and a fast reader after a long outage must not be judged unable to catch up.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 16
LEAST = 4
"""Minimum number of batches before a throughput is reported."""


class Throughput:
    """Throughput of one consumer. Batches smaller than `worth` are ignored: fixed costs dominate
    them.
    """

    def __init__(self, worth: int) -> None:
        self._worth = max(1, worth)
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def handled(self, messages: int, seconds: float) -> None:
        """Record a batch of `messages` that took `seconds`."""
        if messages >= self._worth:
            self._seconds.append(seconds / messages)

    def behind_seconds(self, waiting: int) -> float:
        """Returns how long `waiting` messages will take; 0 while the throughput is unknown."""
        return waiting * min(self._seconds) if len(self._seconds) >= LEAST else 0.0
