"""From when on the silence of a node counts: not while reports could not reach this replica."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slackwater.ingestion.usecases.close_due_windows import CloseDueWindows
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.runtime.ownership import Lease


class Silence:
    """slackwater.runtime.sharding.Holder: all state is in PostgreSQL, but a new owner has heard no node yet."""

    def __init__(
        self, close: CloseWindows, due: CloseDueWindows, liveness: WatchLiveness, redelivery_seconds: float
    ) -> None:
        self._close = close
        self._due = due
        self._liveness = liveness
        self._redelivery_seconds = redelivery_seconds

    def restart(self, after_seconds: float = 0.0) -> None:
        """Silence counts from now on, or `after_seconds` later."""
        self._liveness.listen_anew(after_seconds)
        self._close.listen_anew(after_seconds)

    async def begin(self) -> None:
        """At the start of the service."""
        self.restart()

    async def take(self, leases: Sequence[Lease]) -> None:
        """What the owner before had in hand comes again when the broker has waited long enough for it: silence counts
        only from then on, however short an interval the nodes are expected to keep."""
        self.restart(self._redelivery_seconds)
        self._due.restart()

    async def give(self, leases: Sequence[Lease]) -> None:
        """Nothing is kept in memory."""

    def drop(self, partitions: Collection[int]) -> None:
        """Nothing is kept in memory."""
