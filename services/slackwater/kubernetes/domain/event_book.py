"""Which Kubernetes Events to write: equal ones are one series, and their number and rate are bounded. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.cluster_events import ClusterEvent, EventSeries

SERIES_GAP: Final = timedelta(minutes=6)
"""After this time without another, the same event begins a new series, as Kubernetes' own recorder does."""
REWRITTEN_AFTER: Final = timedelta(seconds=30)
"""The count of a series is written at most so often."""
MOST_SERIES: Final = 1000
"""Series that are remembered; further events are dropped."""
NAME_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class EventPace:
    """How many events are written: `burst` after a calm time, then one each `seconds`."""

    burst: int = 50
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class BookedSeries:
    """A series, with the count that was written last (0: none yet) and when."""

    series: EventSeries
    written: int = 0
    written_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        waits = self.written_at is not None and now < self.written_at + REWRITTEN_AFTER
        return self.series.count > self.written and not waits

    def is_over(self, now: datetime) -> bool:
        return self.series.count == self.written and now >= self.series.last_at + SERIES_GAP


@dataclass(slots=True)
class EventBook:
    """The series of this replica, in the order of their first event."""

    pace: EventPace = field(default_factory=EventPace)
    dropped: int = 0
    _known: dict[ClusterEvent, BookedSeries] = field(default_factory=dict)
    _tokens: float = -1.0
    _counted_at: datetime | None = None

    def note(self, event: ClusterEvent, now: datetime) -> None:
        """Count an event; one beyond MOST_SERIES is dropped."""
        booked = self._known.get(event)
        if booked is not None and now < booked.series.last_at + SERIES_GAP:
            series = replace(booked.series, count=booked.series.count + 1, last_at=now)
            self._known[event] = replace(booked, series=series)
        elif booked is None and len(self._known) >= MOST_SERIES:
            self.dropped += 1
        else:
            self._known[event] = BookedSeries(EventSeries(name_of(event, now), event, now, now))

    def due(self, now: datetime) -> Sequence[BookedSeries]:
        """The series to write now, within the pace. Forgets those that are over."""
        self._known = {event: booked for event, booked in self._known.items() if not booked.is_over(now)}
        self._refill(now)
        found = [booked for booked in self._known.values() if booked.is_due(now)]
        return found[: int(self._tokens)]

    def again_at(self, now: datetime) -> datetime | None:
        """When something may be due without news; None: nothing waits."""
        waiting = [booked for booked in self._known.values() if booked.series.count > booked.written]
        if not waiting:
            return None
        next_token = now + timedelta(seconds=self.pace.seconds)
        times = [next_token if booked.written_at is None else booked.written_at + REWRITTEN_AFTER for booked in waiting]
        return max(min(times), next_token)

    def settled(self, booked: BookedSeries, now: datetime) -> None:
        """A series was written as it was handed out, or refused: it is not tried again until it happens again."""
        self._tokens -= 1
        present = self._known.get(booked.series.event)
        if present is not None and present.series.name == booked.series.name:
            self._known[booked.series.event] = replace(present, written=booked.series.count, written_at=now)

    def _refill(self, now: datetime) -> None:
        if self._counted_at is None:
            self._tokens = float(self.pace.burst)
        else:
            gained = max(0.0, (now - self._counted_at).total_seconds()) / self.pace.seconds
            self._tokens = min(float(self.pace.burst), self._tokens + gained)
        self._counted_at = now


def name_of(event: ClusterEvent, now: datetime) -> str:
    """A name that no other event has, of another moment, subject or note."""
    text = f"{event.subject}{event.reason}{event.action}{event.note}{event.is_warning}{now.isoformat()}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{event.subject.name[:NAME_LENGTH].rstrip('.-')}.{digest}"


def changed_refusals(
    before: dict[str, str], now: dict[str, str], event_of: Callable[[str, str], ClusterEvent | None]
) -> Sequence[ClusterEvent]:
    """An event for each refusal, by what was refused, that is new or has another reason."""
    made = (event_of(key, why) for key, why in now.items() if why and before.get(key) != why)
    return [event for event in made if event is not None]
