"""Selects the trace that a window continues: that of one of its reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.domain.windowing import Phase, aligned, number_of
from slackwater.telemetry.spans import is_sampled

WINDOWS_KEPT = 8
"""Per node. A window that closes later starts a new trace."""


@dataclass(slots=True)
class WindowTraces:
    """Keeps one trace header per open window, in memory. After a restart or on another replica, windows start new
    traces.
    """

    seconds: int
    phase: Phase = aligned
    _by_node: dict[str, dict[int, str]] = field(default_factory=dict)

    def note(self, reports: Iterable[Event[UsageReported]]) -> None:
        """Records the traces of accepted reports. Per window the first sampled one is kept, or else the first."""
        for event in reports:
            if event.traceparent is None:
                continue
            report = event.data
            middle = report.sampled_at - timedelta(seconds=report.window_seconds / 2)
            number = number_of(middle, self.seconds, self.phase(report.node))
            windows = self._by_node.setdefault(report.node, {})
            known = windows.get(number)
            if known is None or (is_sampled(event.traceparent) and not is_sampled(known)):
                windows[number] = event.traceparent
            if len(windows) > WINDOWS_KEPT:
                del windows[min(windows)]

    def pop(self, node: str, start: datetime) -> str | None:
        """Returns the trace of the window that starts at `start`, and drops it and those of earlier windows."""
        number = number_of(start, self.seconds, self.phase(node))
        windows = self._by_node.get(node, {})
        traceparent = windows.get(number)
        for old in [known for known in windows if known <= number]:
            del windows[old]
        return traceparent
