"""Sets when the silence of nodes starts to count: not while reports could not reach this replica."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slackwater.ingestion.usecases.close_due_windows import CloseDueWindows
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.runtime.ownership import Lease


class Silence:
    """Implements slackwater.runtime.partition_sharding.Holder. All state is in PostgreSQL, but a new owner has not yet
    received reports.
    """

    def __init__(
        self, close: CloseWindows, due: CloseDueWindows, liveness: WatchLiveness, redelivery_seconds: float
    ) -> None:
        self._close = close
        self._due = due
        self._liveness = liveness
        self._redelivery_seconds = redelivery_seconds

    def restart(self, after_seconds: float = 0.0) -> None:
        """Counts silence from now, or `after_seconds` later."""
        self._liveness.listen_anew(after_seconds)
        self._close.listen_anew(after_seconds)

    async def begin(self) -> None:
        """Starts counting when the service starts."""
        self.restart()

    async def acquire(self, leases: Sequence[Lease]) -> None:
        """Starts counting after the redelivery time.

        Reports that were in flight at the previous owner are redelivered only then, however short the report interval
        is.
        """
        self.restart(self._redelivery_seconds)
        self._due.restart()

    async def release(self, leases: Sequence[Lease]) -> None:
        """No-op: nothing is kept in memory."""

    def drop(self, partitions: Collection[int]) -> None:
        """No-op: nothing is kept in memory."""
