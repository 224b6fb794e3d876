"""Up to when the nodes of each partition have been heard: while their reports wait for us, the silence is ours.

Without it an overload feeds itself: a fleet whose reports wait is called stale, every node of it is written and told,
and that takes the time that reports would have needed (10,000 nodes on two cores: two thirds of PostgreSQL's work).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from slackwater.bus.port import Received
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock

BEHIND = timedelta(seconds=2)
"""A report that waited no longer than this did not wait for us: broker and we have clocks of our own."""
NOTED = timedelta(seconds=15)
"""Who is behind takes a batch more often than this. Later nothing waits any more, or the stream let go of it."""


class Hearing:
    """What was taken last of each partition: when the broker had stored it, and when we took it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: dict[int, tuple[datetime, datetime]] = {}

    def took(self, batch: Sequence[Received[UsageReported]], at: datetime) -> None:
        """A batch, in the order of the stream, of which we know since `at`."""
        newest = {partition_of(one.subject_key): one.stored_at_seconds for one in batch if one.stored_at_seconds}
        for partition, seconds in newest.items():
            self._taken[partition] = (datetime.fromtimestamp(seconds, UTC), at)

    def until(self, partition: int) -> datetime:
        """Whoever reported before then has been heard."""
        now = self._clock.now()
        stored_at, taken_at = self._taken.get(partition, (now, now))
        is_behind = taken_at - stored_at > BEHIND and now - taken_at <= NOTED
        return stored_at if is_behind else now
