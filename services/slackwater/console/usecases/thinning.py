"""Which reports of usage are read at all: every one of a small fleet, and of a large one so many a second.

Reading, storing and showing a report of 30 pods costs more than a millisecond. The console shows each node's newest,
and a chart of some hundred points of it: a large fleet's nodes take turns. What is urgent comes by its own way
(waterline.crossed) and is always kept.
"""

from __future__ import annotations

from slackwater.model.time import Clock

TURN = 1.05
"""Times the time in which all nodes could be read once: who was read within it lets others go first. Below 1 more would
have their turn than can be read, and of nodes that report in step always the same ones would find nothing left."""


class Thinning:
    """A budget of `per_second` reports, a second's worth of which may be used at once. A node that was read longest
    ago is never behind one that has just been read."""

    def __init__(self, clock: Clock, per_second: float) -> None:
        self._clock = clock
        self._per_second = per_second
        self._left = per_second
        self._filled_at = clock.monotonic()
        self._read_at: dict[str, float] = {}

    def __call__(self, node: str) -> bool:
        """Whether to read this report, which counts as read if so."""
        now = self._clock.monotonic()
        self._left = min(self._per_second, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        plenty = self._left > self._per_second / 2
        if self._left < 1 or not (plenty or self._is_its_turn(node, now)):
            return False
        self._left -= 1
        self._read_at.pop(node, None)
        self._read_at[node] = now
        self._forget(now)
        return True

    def _is_its_turn(self, node: str, now: float) -> bool:
        read_at = self._read_at.get(node)
        return read_at is None or now - read_at >= TURN * len(self._read_at) / self._per_second

    def _forget(self, now: float) -> None:
        """Those read longest ago stand first; a node that is gone must not lengthen the turns of the others."""
        longest = max(60.0, 3 * len(self._read_at) / self._per_second)
        oldest = next(iter(self._read_at))
        if now - self._read_at[oldest] > longest:
            del self._read_at[oldest]
