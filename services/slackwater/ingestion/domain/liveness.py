"""Liveness by the server's clock alone, so that an agent's wrong clock has no effect on it."""

from __future__ import annotations

from datetime import datetime, timedelta

from slackwater.model.nodes import Liveness
from slackwater.model.records import record


@record(frozen=True, slots=True)
class LivenessLimits:
    """A node is stale after `stale_intervals` report intervals without a report, and lost after `lost_seconds`."""

    interval_seconds: float
    stale_intervals: float
    lost_seconds: float

    @property
    def stale_seconds(self) -> float:
        return self.interval_seconds * self.stale_intervals


def liveness_of(
    last_seen_at: datetime, now: datetime, limits: LivenessLimits, listening_since: datetime | None = None
) -> Liveness:
    """Returns the liveness for the age of the last receipt. An age exactly at a limit still has the better state.

    `listening_since`: silence counts only from when this replica could receive reports. Otherwise every restart or
    outage of ingestion would declare the whole fleet lost.
    """
    silent_since = last_seen_at if listening_since is None else max(last_seen_at, listening_since)
    age = now - silent_since
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
    """Returns the liveness without a new report, which never improves: a restart of ingestion does not revive a lost
    node.
    """
    liveness = liveness_of(last_seen_at, now, limits, listening_since)
    order = (None, Liveness.FRESH, Liveness.STALE, Liveness.LOST)
    return liveness if previous is None or order.index(liveness) > order.index(previous) else previous
