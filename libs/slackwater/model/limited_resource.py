"""What a process or its broker can use up: how far it is used, and what follows when it is full.

One definition for readiness, metrics, alerts, health.reported, the console and `slackwater doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NEARLY_FULL_SHARE: Final = 0.2
"""Nearly full: less than this share of the limit is free."""
FULL_SHARE: Final = 0.02
"""Full: less than this share is free. A broker's message (1 MiB) is below 2 % of each stream's limit."""
TIGHT_DISK_BYTES, FULL_DISK_BYTES = 2 * 2**30, 256 * 2**20
"""Of a large disk a share is too much: below the first, history may fill it within weeks; below the second, PostgreSQL
and NATS stop soon."""


class FillLevel(StrEnum):
    """How full it is, in rising order."""

    FINE = "fine"
    NEARLY_FULL = "nearly full"
    FULL = "full"


class Limited(StrEnum):
    """What is limited. `stream`, `store`: of the broker, the same for every process. The others belong to a process."""

    STREAM = "stream"
    STORE = "store"
    DISK = "disk"
    POOL = "pool"
    DESCRIPTORS = "descriptors"

    @property
    def is_shared(self) -> bool:
        return self in (Limited.STREAM, Limited.STORE)


_ADVICE: Final = {
    Limited.STREAM: "raise max_bytes in contracts/streams.yaml, or find what fills it (docs/how-to/runbook.md)",
    Limited.STORE: "raise the limit of the broker's account, or lower max_bytes in contracts/streams.yaml",
    Limited.DISK: "free space there, or move it to a larger disk",
    Limited.POOL: "find slow statements (pg_stat_activity), or start another replica",
    Limited.DESCRIPTORS: "raise the limit (ulimit -n, LimitNOFILE), or find what holds connections",
}


@dataclass(frozen=True, slots=True)
class LimitedResource:
    """One reading. `used` and `limit` are bytes; of a pool sessions (in use and waited for), of descriptors a number.

    Full means: a stream or store refuses messages or drops the oldest, a disk takes no writes, requests for a session
    wait, no descriptor is left.
    """

    kind: Limited
    name: str
    used: int
    limit: int

    @property
    def level(self) -> FillLevel:
        free = self.limit - self.used
        if free < self._least_free(FULL_SHARE, FULL_DISK_BYTES):
            return FillLevel.FULL
        return FillLevel.NEARLY_FULL if free < self._least_free(NEARLY_FULL_SHARE, TIGHT_DISK_BYTES) else FillLevel.FINE

    def _least_free(self, share: float, disk_bytes: int) -> float:
        if self.kind is Limited.POOL and share == FULL_SHARE:
            return 0.0  # all sessions in use is a busy service; with others waiting it is full
        least = self.limit * share
        return min(least, disk_bytes) if self.kind is Limited.DISK else least

    @property
    def used_ratio(self) -> float:
        return self.used / self.limit if self.limit else 1.0

    @property
    def stops_process(self) -> bool:
        """Whether this process is not ready because of it: another replica may have what this one lacks.

        A full stream is the same for all replicas, so taking them out of a load balancer would help none.
        """
        return self.level is FillLevel.FULL and not self.kind.is_shared

    @property
    def label(self) -> str:
        """Returns a name for a check, like `stream-DECISIONS`."""
        return f"{self.kind}-{self.name}"

    @property
    def figures(self) -> str:
        """Returns used and limit, like `3.5 of 4.0 GiB (88 %)`."""
        return f"{_amounts(self.kind, self.used, self.limit)} ({self.used_ratio:.0%})".replace("%", " %")

    @property
    def message(self) -> str:
        """Returns what is used of what, and what to do unless it is fine."""
        if self.level is FillLevel.FINE:
            return self.figures
        return f"{self.level}: {self.figures}; {_ADVICE[self.kind]}"


def _amounts(kind: Limited, used: int, limit: int) -> str:
    if kind is Limited.POOL:
        return f"{used} of {limit} sessions in use or waited for"
    if kind is Limited.DESCRIPTORS:
        return f"{used} of {limit} open"
    unit, name = next(((size, name) for size, name in _UNITS if limit >= size), (1, "bytes"))
    return f"{used / unit:.1f} of {limit / unit:.1f} {name}"


_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def fullest_first(resources: Iterable[LimitedResource]) -> list[LimitedResource]:
    """Returns what is full, then what is nearly full, then the rest; within each by used share."""
    order = list(FillLevel)
    return sorted(resources, key=lambda resource: (-order.index(resource.level), -resource.used_ratio, resource.label))
