"""Which reports begin a trace that is exported: few enough for a fleet of thousands, enough to see every kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TraceBudget:
    """At most one ordinary report per `seconds`, and one urgent one (a crossed waterline) per `urgent_seconds`.

    0 takes every report. Times are monotonic seconds.
    """

    seconds: float = 60.0
    urgent_seconds: float = 5.0
    _last: float | None = None
    _last_urgent: float | None = None

    def grant(self, urgent: bool, now: float) -> bool:
        """Whether this report's trace is exported; counts it if so."""
        last, pause = (self._last_urgent, self.urgent_seconds) if urgent else (self._last, self.seconds)
        if last is not None and now - last < pause:
            return False
        if urgent:
            self._last_urgent = now
        else:
            self._last = now
        return True
