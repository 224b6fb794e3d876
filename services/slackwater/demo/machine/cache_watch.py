"""What the kernel showed during a turn of the scene cache: limits of batch, and what prod read again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.demo.machine.page_cache import MIB, CacheGroup, level_bytes
from slackwater.model.errors import Unavailable

_STEADY_SECONDS = 1.0


@dataclass(slots=True)
class CacheWatch:
    """Readings by monotonic seconds. A batch pod without an upper level counts with `most_mib`, its hard limit."""

    prod: CacheGroup
    batch: Sequence[CacheGroup]
    most_mib: int
    began: float = field(default_factory=time.monotonic)
    limits: list[tuple[float, tuple[tuple[str, ...], ...]]] = field(default_factory=list)
    refaults: list[tuple[float, int]] = field(default_factory=list)

    def note(self) -> None:
        """Read the kernel's files once. Raises Unavailable where a program has ended."""
        now = time.monotonic()
        try:
            self.limits.append((now, tuple(group.limits() for group in self.batch)))
            self.refaults.append((now, self.prod.refault_bytes()))
        except OSError as error:
            raise Unavailable(f"a program ended early: {error}") from error

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def lowered_at(self) -> float | None:
        """When a limit first differed from that of the begin, in seconds since then."""
        original = self.limits[0][1] if self.limits else ()
        return next((round(at - self.began, 1) for at, limits in self.limits if limits != original), None)

    def limit_mib(self, at: float) -> int | None:
        """The levels of all batch pods together at a time; None where all are as at the begin."""
        until = [limits for moment, limits in self.limits if moment <= at]
        if not until or until[-1] == until[0]:
            return None
        return sum(level_bytes(limits, self.most_mib * MIB) for limits in until[-1]) // MIB

    def is_original(self) -> bool:
        return tuple(group.limits() for group in self.batch) == self.limits[0][1]

    def refault_mib(self, begin: float, end: float) -> float:
        """MiB per second that prod read again in this time."""
        return mib_per_second([(at, total) for at, total in self.refaults if begin <= at <= end])

    def seconds_above(self, mib: float) -> int:
        """In how many whole seconds prod read more again than so many MiB."""
        ends = self.refaults[-1][0] if self.refaults else self.began
        whole = range(int((ends - self.began) / _STEADY_SECONDS))
        return sum(self.refault_mib(self.began + second, self.began + second + 1.05) > mib for second in whole)


def mib_per_second(totals: Sequence[tuple[float, int]]) -> float:
    """MiB per second between the first and the last of these readings."""
    if len(totals) < 2 or totals[-1][0] <= totals[0][0]:
        return 0.0
    return round((totals[-1][1] - totals[0][1]) / MIB / (totals[-1][0] - totals[0][0]), 1)
