"""What a turn of the cache scene showed: the kernel's counters, and figures from them and from the programs' notes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.demo.load import percentile
from slackwater.demo.scenes.cache_result import CacheMoment, CacheTurn
from slackwater.demo.scenes.page_cache import MIB, CacheGroup, level_bytes
from slackwater.demo.scenes.reread import BlockRead
from slackwater.demo.scenes.stream import Progress
from slackwater.model.errors import Unavailable

END_SECONDS: Final = 2.0
"""The last seconds of a turn, by which Slackwater has reacted, or could have."""
_MOMENT_SECONDS: Final = 0.25


@dataclass(slots=True)
class CacheWatch:
    """What the kernel showed during a turn: the files of batch's limits and prod's refaults, by monotonic seconds.
    A batch pod without an upper level counts with `most_mib`, its hard limit."""

    began: float
    most_mib: int
    limits: list[tuple[float, tuple[tuple[str, ...], ...]]] = field(default_factory=list)
    refaults: list[tuple[float, int]] = field(default_factory=list)

    def note(self, prod: CacheGroup, batch: Sequence[CacheGroup]) -> None:
        """Read the kernel's files once. Raises Unavailable where a program has ended."""
        now = time.monotonic()
        try:
            self.limits.append((now, tuple(group.limits() for group in batch)))
            self.refaults.append((now, prod.refault_bytes()))
        except OSError as error:
            raise Unavailable(f"cache scene: a program ended early: {error}") from error

    def first_lowered(self) -> float | None:
        """When a limit differed from that of the begin, in seconds since then."""
        original = self.limits[0][1] if self.limits else ()
        return next((round(at - self.began, 1) for at, limits in self.limits if limits != original), None)

    def limit_mib(self, at: float) -> int | None:
        """The levels of all batch pods together at a time; None where all are as at the begin."""
        known = [limits for moment, limits in self.limits if moment <= at]
        if not known or known[-1] == known[0]:
            return None
        return sum(level_bytes(limits, self.most_mib * MIB) for limits in known[-1]) // MIB

    def refault_mib(self, begin: float, end: float) -> float:
        """MiB per second that prod read again in this time."""
        within = [(at, total) for at, total in self.refaults if begin <= at <= end]
        return _rate(within)


def measured_turn(
    variant: str, watch: CacheWatch, ended: float, reads: Sequence[BlockRead], batch: Sequence[Sequence[Progress]]
) -> CacheTurn:
    """Returns the turn from the programs' own notes and from what the kernel showed."""
    begin = ended - END_SECONDS
    return CacheTurn.model_validate(
        {
            "variant": variant,
            "p99_ms": _p99_ms(reads, watch.began, ended),
            "end_p99_ms": _p99_ms(reads, begin, ended),
            "end_refault_mib": watch.refault_mib(begin, ended),
            "end_batch_mib": round(sum(_rate([(one.at, one.bytes) for one in own if begin <= one.at <= ended])
                                       for own in batch), 1),
            "limit_mib": watch.limit_mib(ended) if batch else None,
            "seconds_to_limit": watch.first_lowered() if batch else None,
            "moments": tuple(_moments(watch, ended, reads, is_limited=bool(batch))),
        }
    )  # fmt: skip


def _moments(watch: CacheWatch, ended: float, reads: Sequence[BlockRead], *, is_limited: bool) -> Iterator[CacheMoment]:
    for number in range(int((ended - watch.began) / _MOMENT_SECONDS)):
        begin = watch.began + number * _MOMENT_SECONDS
        within = [one.seconds * 1000 for one in reads if begin <= one.at < begin + _MOMENT_SECONDS]
        p99 = round(percentile(within, 0.99), 3) if within else None
        limit = watch.limit_mib(begin + _MOMENT_SECONDS) if is_limited else None
        yield CacheMoment(seconds=round((number + 1) * _MOMENT_SECONDS, 2), p99_ms=p99, limit_mib=limit)


def _p99_ms(reads: Sequence[BlockRead], begin: float, end: float) -> float:
    within = [one.seconds * 1000 for one in reads if begin <= one.at <= end]
    if not within:
        raise Unavailable("cache scene: prod ended no read")
    return round(percentile(within, 0.99), 3)


def _rate(totals: Sequence[tuple[float, int]]) -> float:
    """MiB per second between the first and the last of these readings."""
    if len(totals) < 2 or totals[-1][0] <= totals[0][0]:
        return 0.0
    return round((totals[-1][1] - totals[0][1]) / MIB / (totals[-1][0] - totals[0][0]), 1)
