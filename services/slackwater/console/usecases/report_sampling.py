"""Selects the usage reports that are read: all in a small fleet and of nodes that are open, the others take turns.

Reading, storing and showing a report of 30 pods costs more than a millisecond. Lists show each node's newest report, so
one in TURN_SECONDS is enough for them; the page of a node shows every report while it is open. Urgent reports have
their own path (waterline.crossed) and are always stored.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.model.time import Clock

TURN_SECONDS = 15.0
"""Shorter than the age at which a node counts as silent (domain.fleet.FRESH)."""
SMALL_PER_SECOND = 60.0
"""As many reports are read in any case."""
TURN = 1.05
"""Factor on the time in which all nodes could be read once: a node that was read within it yields to others. Below 1,
more nodes would have their turn than can be read, and nodes that report in step would always find the budget empty.
"""


def _is_closed(node: str) -> bool:
    return False


class ReportSampling:
    """A budget of as many reports as the turns of all nodes need, from SMALL_PER_SECOND to `per_second`; one second's
    worth may be used at once. The node read longest ago is never behind one that has just been read. Of an open node
    each report is read, within `per_second`.
    """

    def __init__(self, clock: Clock, per_second: float, is_open: Callable[[str], bool] = _is_closed) -> None:
        self._clock = clock
        self._most_per_second = per_second
        self._is_open = is_open
        self._left = self._left_to_open = per_second
        self._filled_at = clock.monotonic()
        self._read_at: dict[str, float] = {}

    def __call__(self, node: str) -> bool:
        """Whether to read this report; a True counts as read."""
        now = self._clock.monotonic()
        passed, rate, most = now - self._filled_at, self._per_second, self._most_per_second
        self._left = min(rate, self._left + passed * rate)
        self._left_to_open = min(most, self._left_to_open + passed * most)
        self._filled_at = now
        if self._left_to_open < 1:
            return False
        if not self._is_open(node):
            plenty = self._left > rate / 2
            if self._left < 1 or not (plenty or self._is_its_turn(node, now)):
                return False
            self._left -= 1
        self._left_to_open -= 1
        self._read_at.pop(node, None)
        self._read_at[node] = now
        self._drop_old(now)
        return True

    @property
    def _per_second(self) -> float:
        return min(self._most_per_second, max(SMALL_PER_SECOND, len(self._read_at) / TURN_SECONDS))

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
