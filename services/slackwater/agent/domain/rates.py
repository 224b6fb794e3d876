"""From counters to rates: what happened between two readings. Unknown stays None."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.agent.domain.samples import PsiTotals

SHORTEST_SECONDS = 0.001
"""Two readings closer than this say nothing about a rate."""


def milli_of(before_ns: int | None, after_ns: int | None, seconds: float) -> int | None:
    """Milli-cores from CPU nanoseconds; None when a side is unknown or the counter went back (it was reset)."""
    if before_ns is None or after_ns is None or after_ns < before_ns or seconds < SHORTEST_SECONDS:
        return None
    return round((after_ns - before_ns) / seconds / 1_000_000)


def delta(before: int | None, after: int | None) -> int | None:
    """How much a counter moved; None when unknown or reset."""
    if before is None or after is None or after < before:
        return None
    return after - before


def per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    """The rate of a counter; None when unknown, reset, or the readings are too close."""
    moved = delta(before, after)
    return None if moved is None or seconds < SHORTEST_SECONDS else moved / seconds


def remainder(whole: int | None, parts: list[int | None]) -> int | None:
    """Whole minus all parts, floored at zero; None if anything is unknown."""
    known = [part for part in parts if part is not None]
    if whole is None or len(known) != len(parts):
        return None
    return max(0, whole - sum(known))


@dataclass(slots=True)
class ShareWindow:
    """Share of time (0..1) of one pressure over a window: last interval, time-weighted average, highest interval."""

    last: float | None = None
    highest: float | None = None
    _waited_us: int = 0
    _seconds: float = 0.0

    def add(self, before_us: int | None, after_us: int | None, seconds: float) -> None:
        """One interval. An interval that cannot be known leaves `last` None and the window without it."""
        waited = delta(before_us, after_us)
        if waited is None or seconds < SHORTEST_SECONDS:
            self.last = None
            return
        share = min(1.0, waited / 1_000_000 / seconds)
        self.last = share
        self.highest = share if self.highest is None else max(self.highest, share)
        self._waited_us += waited
        self._seconds += seconds

    @property
    def average(self) -> float | None:
        return None if self._seconds == 0 else min(1.0, self._waited_us / 1_000_000 / self._seconds)


@dataclass(slots=True)
class PressureWindow:
    """The three pressures of one place."""

    cpu: ShareWindow = field(default_factory=ShareWindow)
    memory: ShareWindow = field(default_factory=ShareWindow)
    io: ShareWindow = field(default_factory=ShareWindow)

    def add(self, before: PsiTotals, after: PsiTotals, seconds: float) -> None:
        self.cpu.add(before.cpu_some_us, after.cpu_some_us, seconds)
        self.memory.add(before.memory_some_us, after.memory_some_us, seconds)
        self.io.add(before.io_some_us, after.io_some_us, seconds)
