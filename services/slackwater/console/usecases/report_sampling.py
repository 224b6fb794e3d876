"""Selects the usage reports that are read: all in a small fleet, a fixed number per second in a large one.

Reading, storing and showing a report of 30 pods costs more than a millisecond. The console shows each node's newest
report, and a chart of some hundred points of it, so the nodes of a large fleet take turns. Urgent reports have their
own path (waterline.crossed) and are always stored.
"""

from __future__ import annotations

from slackwater.model.time import Clock

TURN = 1.05
"""Factor on the time in which all nodes could be read once: a node that was read within it yields to others. Below 1,
more nodes would have their turn than can be read, and nodes that report in step would always find the budget empty.
"""


class ReportSampling:
    """A budget of `per_second` reports; one second's worth may be used at once. The node read longest ago is never
    behind one that has just been read.
    """

    def __init__(self, clock: Clock, per_second: float) -> None:
        self._clock = clock
        self._per_second = per_second
        self._left = per_second
        self._filled_at = clock.monotonic()
        self._read_at: dict[str, float] = {}

    def __call__(self, node: str) -> bool:
        """Whether to read this report; a True counts as read."""
        now = self._clock.monotonic()
        self._left = min(self._per_second, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        plenty = self._left > self._per_second / 2
        if self._left < 1 or not (plenty or self._is_its_turn(node, now)):
            return False
        self._left -= 1
        self._read_at.pop(node, None)
        self._read_at[node] = now
        self._drop_old(now)
        return True

    def _is_its_turn(self, node: str, now: float) -> bool:
        read_at = self._read_at.get(node)
        return read_at is None or now - read_at >= TURN * len(self._read_at) / self._per_second

    def _drop_old(self, now: float) -> None:
        """Drop old entries. The ones read longest ago are first; a removed node must not lengthen the turns of the
        others.
        """
        longest = max(60.0, 3 * len(self._read_at) / self._per_second)
        oldest = next(iter(self._read_at))
        if now - self._read_at[oldest] > longest:
            del self._read_at[oldest]
