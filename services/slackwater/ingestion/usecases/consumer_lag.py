"""Tracks consumer lag per partition: while reports wait in the stream, a node's silence is not counted.

Without it an overload amplifies itself: a fleet whose reports wait is declared stale, every node is written and
published, and that takes the time that reports need (10,000 nodes on two cores: two thirds of PostgreSQL's work).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from slackwater.bus.port import Received
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock

BEHIND = timedelta(seconds=2)
"""A report that waited no longer is not lagging; the allowance covers clock differences to the broker."""
NOTED = timedelta(seconds=15)
"""A lagging replica receives batches more often than this. After that nothing waits, or the stream has dropped it."""


class ConsumerLag:
    """The last report received of each partition: when the broker stored it, and when this replica received it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._received: dict[int, tuple[datetime, datetime]] = {}

    def record(self, batch: Sequence[Received[UsageReported]], at: datetime) -> None:
        """Records a batch in stream order, received at `at`."""
        newest = {
            partition_of(received.subject_key): received.stored_at_seconds
            for received in batch
            if received.stored_at_seconds
        }
        for partition, seconds in newest.items():
            self._received[partition] = (datetime.fromtimestamp(seconds, UTC), at)

    def until(self, partition: int) -> datetime:
        """Returns the time up to which reports of this partition have been received."""
        now = self._clock.now()
        stored_at, received_at = self._received.get(partition, (now, now))
        is_behind = received_at - stored_at > BEHIND and now - received_at <= NOTED
        return stored_at if is_behind else now
