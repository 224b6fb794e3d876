"""Which reports are worth writing down a node's latest usage anew, with all its pods.

In a small fleet: each. It is the largest thing that is written (10 KB for 30 pods) and it is only looked at, so in a
large fleet it is written as often as a budget for the whole fleet allows: with 200 a second each of 2,000 nodes has its
turn every ten seconds. What somebody would miss is never put off: a report that did not wait for its interval, a pod
more or less, a throttle that began or ended. Points of charts are kept of every report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slackwater.console.domain.views import UsagePoint

WRITES_PER_SECOND = 200.0
_NEVER_PUT_OFF_SECONDS = 120.0
"""The longest pause, however large the fleet."""


@dataclass(frozen=True, slots=True)
class _Written:
    sampled_at: datetime
    pods: int
    throttled_pods: int


@dataclass(slots=True)
class NewestUsage:
    """What this process wrote last, per node: another replica, or this one after a restart, writes once more."""

    writes_per_second: float = WRITES_PER_SECOND
    _written: dict[str, _Written] = field(default_factory=dict)

    def is_due(self, point: UsagePoint) -> bool:
        """Whether to write; then it is taken for written."""
        last = self._written.get(point.node)
        if last is not None and not self._is_news(point, last):
            return False
        self._written[point.node] = _Written(point.sampled_at, point.pods, point.throttled_pods)
        return True

    def _is_news(self, point: UsagePoint, last: _Written) -> bool:
        if point.sampled_at == last.sampled_at:  # it comes again: whatever happened to it, it is written
            return True
        if point.trigger != "interval" or (point.pods, point.throttled_pods) != (last.pods, last.throttled_pods):
            return True
        pause_seconds = min(len(self._written) / self.writes_per_second, _NEVER_PUT_OFF_SECONDS)
        # Half a window less: a report that comes a little early is not put off to the next one.
        return point.sampled_at - last.sampled_at >= timedelta(seconds=pause_seconds - point.window_seconds / 2)
