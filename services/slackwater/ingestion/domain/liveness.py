"""Who is alive, by the server's clock alone: an agent with a wrong clock cannot look alive or dead."""

from __future__ import annotations

from datetime import datetime, timedelta

from slackwater.ingestion.domain.reports import Liveness
from slackwater.model.records import record


@record(frozen=True, slots=True)
class LivenessLimits:
    """Stale after so many expected report intervals without one, lost after `lost_seconds`."""

    interval_seconds: float
    stale_intervals: float
    lost_seconds: float

    @property
    def stale_seconds(self) -> float:
        return self.interval_seconds * self.stale_intervals


def liveness_of(
    last_seen_at: datetime, now: datetime, limits: LivenessLimits, listening_since: datetime | None = None
) -> Liveness:
    """Age of the last receipt against the limits; exactly at a limit is still the better state.

    `listening_since`: silence counts only from when we were able to hear, else every restart or outage of ours
    would declare the whole fleet lost.
    """
    heard = last_seen_at if listening_since is None else max(last_seen_at, listening_since)
    age = now - heard
    if age > timedelta(seconds=max(limits.lost_seconds, limits.stale_seconds)):
        return Liveness.LOST
    return Liveness.STALE if age > timedelta(seconds=limits.stale_seconds) else Liveness.FRESH


def after_silence(
    previous: Liveness | None,
    last_seen_at: datetime,
    now: datetime,
    limits: LivenessLimits,
    listening_since: datetime | None = None,
) -> Liveness:
    """Without a new report things only get worse: a lost node is not revived by our own restart."""
    found = liveness_of(last_seen_at, now, limits, listening_since)
    order = (None, Liveness.FRESH, Liveness.STALE, Liveness.LOST)
    return found if previous is None or order.index(found) > order.index(previous) else previous
