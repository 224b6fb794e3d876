"""Models that are small enough to compute by hand, and traces that fit on a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.backtest.ports import Contender
from slackwater.peaks.port import Floats, Members, PeakModel, Peaks
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import CELL_SECONDS, Repairs, Trace


class SaysLimits:
    """Always the sum of the limits: never wrong, and of no use."""

    name, version = "limits", "1"

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        """Learns nothing."""

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        return answer(members, members.limit)


class SaysLast:
    """What each member used last, times a factor, within its limit; keyed by workload."""

    name, version = "last", "1"

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.last: dict[int, float] = {}
        self.heard: list[tuple[float, list[int], list[int]]] = []

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self.heard.append((at_seconds, members.series.tolist(), members.workload.tolist()))
        self.last |= dict(zip(members.workload.tolist(), usage.tolist(), strict=True))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        known = np.array([self.last.get(key, 0.0) for key in members.workload.tolist()], dtype=np.float64)
        return answer(members, np.minimum(known * self.factor, members.limit))


class SaysNonsense(SaysLimits):
    """No number at all."""

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        return answer(members, members.limit * np.nan)


def answer(members: Members, each: Floats) -> Peaks:
    machines = len(members.capacity)
    peak = np.bincount(members.machine, weights=each, minlength=machines).astype(np.float64)
    return Peaks(peak, {"all": peak}, np.zeros(machines))


def contender(label: str, make: Callable[[], PeakModel]) -> Contender:
    return Contender(label, "1", {}, make)


LIMITS = contender("limits", SaysLimits)
LAST = contender("last", SaysLast)


def trace_of(
    usage: Sequence[Sequence[float]] | NDArray[np.float64],
    limit: float = 100.0,
    present: NDArray[np.bool_] | None = None,
    workload: Sequence[int] | None = None,
    whole_machines: bool = False,
) -> Trace:
    """`usage` is (cells, series)."""
    used = np.asarray(usage, dtype=np.float32)
    there = np.ones(used.shape, bool) if present is None else present
    return Trace(
        title="made",
        resource=TraceResource.CPU,
        start_seconds=1_000 * CELL_SECONDS,
        names=[f"pod-{n}" for n in range(used.shape[1])],
        workload=np.arange(used.shape[1]) if workload is None else np.array(workload),
        usage=np.where(there, used, np.float32(0)),
        limit=np.where(there, np.float32(limit), np.float32(0)),
        present=there,
        whole_machines=whole_machines,
        repairs=Repairs(),
    )


class Silent:
    """Counts its calls."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def begin(self, cells: int) -> None:
        self.total = cells

    def advance(self, cells: int) -> None:
        self.done += cells


def no_time() -> float:
    return 0.0
