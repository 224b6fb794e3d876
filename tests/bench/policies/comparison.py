"""Compares cost and effect of two policies under the same surges, from the kernel's counters. Pure functions.

For each second after the start of a surge, with C CPUs and a batch demand of D:

    needed = CPU that batch had to release for the machine to stay at the target: machine - batch + D - target x C,
             clamped to 0..D
    lost   = D - batch: demand of batch that was not met

Both are summed until batch is fully restored. D is the usage of batch while the service is at rest, over all surges.

On a virtual machine the host may run other guests meanwhile (steal). Steal time counts as usage of the machine, here
and in the agent. No policy can recover it, so it is reported separately, as is the p99 of the requests without steal.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from slackwater.charts.latency_chart import percentile
from slackwater.demo.programs.load import Sample

_STEP_SECONDS = 0.1
_PIECE_SECONDS = 0.5
ENOUGH_REQUESTS = 200
"""Minimum number of requests for a p99; with fewer, the p99 is one of the two slowest requests."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Cumulative CPU seconds at one time (monotonic seconds): of the whole machine, of batch, and stolen by the host
    (included in the machine's)."""

    at: float
    machine: float
    batch: float
    stolen: float = 0.0


@dataclass(frozen=True, slots=True)
class Lowered:
    """The quota of a batch pod was observed to decrease at `at`."""

    at: float
    pod: str


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Reference values: CPUs, waterline and target as shares of them, and `wanted`, the demand of batch in CPUs."""

    cpus: float
    waterline: float
    target: float
    wanted: float


@dataclass(frozen=True, slots=True)
class SurgeSeen:
    """Measurements of one surge: its start and end, the time at which batch was restored (`until`), and the
    readings."""

    policy: str
    began: float
    ended: float
    until: float
    used: Sequence[CpuUse]
    lowered: Sequence[Lowered]
    samples: Sequence[Sample]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class SurgeFigures(_Part):
    """Results of one surge; CPU in CPU seconds.

    `seconds_to_below` counts from its start to the start of the first whole second at or below the waterline after one
    above it. None if there was no such second before its end, or none above the waterline (`crossed`).
    """

    policy: str
    needed: float
    lost: float
    seconds_above: float
    crossed: bool
    seconds_to_below: float | None
    pods: int
    actions: int
    p99_ms: float | None = None
    stolen: float = 0.0
    """CPU seconds stolen by the host during the surge."""


class ComparisonOutcome(_Part):
    """Results of one policy over all its surges. Latencies in milliseconds, CPU in CPU seconds, times in seconds."""

    surges: int
    crossed: int
    never_below: int
    requests: int
    errors: int
    p99_ms: float | None
    """p99 over all requests. `p99_median_ms` is that of the median surge, which a single stall does not change."""
    p99_median_ms: float | None = None
    p99_undisturbed_ms: float | None = None
    """p99 over the requests in half-second intervals without steal; None for fewer than 200 requests."""
    stolen: float = 0.0
    needed: float
    lost: float
    above_needed_ratio: float | None
    seconds_above: float
    pods_a_surge: float
    actions: int
    below_p50_seconds: float | None
    below_p99_seconds: float | None
    below_max_seconds: float | None


class PolicyComparison(_Part):
    """What both policies came to. `left_out` says why it was skipped or ended early."""

    left_out: str = ""
    waterline: float = 0.0
    target: float = 0.0
    cool_down_seconds: float = 0.0
    cpus: int = 0
    surge_seconds: float = 0.0
    batch_pods: int = 0
    batch_wanted_cpus: float = 0.0
    alone_p99_ms: float | None = None
    alone_p99_median_ms: float | None = None
    """p99 of the service alone, with the same requests, measured before each pair of surges."""
    alone_p99_undisturbed_ms: float | None = None
    alone_stolen: float = 0.0
    outcomes: Mapping[str, ComparisonOutcome] = {}
    surges: tuple[SurgeFigures, ...] = ()


def rate(used: Sequence[CpuUse], began: float, ended: float) -> tuple[float, float]:
    """Mean CPUs of the machine and of batch between two times, interpolated linearly; 0 without readings."""
    if len(used) < 2 or ended <= began:
        return 0.0, 0.0
    first, last = _at(used, began), _at(used, ended)
    return (last.machine - first.machine) / (ended - began), (last.batch - first.batch) / (ended - began)


def _at(used: Sequence[CpuUse], moment: float) -> CpuUse:
    index = min(max(1, bisect_left(used, moment, key=lambda one: one.at)), len(used) - 1)
    before, after = used[index - 1], used[index]
    share = 0.0 if after.at <= before.at else min(1.0, max(0.0, (moment - before.at) / (after.at - before.at)))
    return CpuUse(
        moment,
        before.machine + share * (after.machine - before.machine),
        before.batch + share * (after.batch - before.batch),
        before.stolen + share * (after.stolen - before.stolen),
    )


def stolen(used: Sequence[CpuUse], began: float, ended: float) -> float:
    """CPU seconds stolen by the host between two times; 0 without readings."""
    return 0.0 if len(used) < 2 or ended <= began else _at(used, ended).stolen - _at(used, began).stolen


def undisturbed(samples: Sequence[Sample], used: Sequence[CpuUse]) -> list[Sample]:
    """The requests scheduled in half-second intervals without steal, where the following interval has none either.

    Whole intervals are dropped, never single requests, so that slow requests are not filtered out.
    """
    calm: dict[int, bool] = {}
    found = []
    for sample in samples:
        piece = math.floor(sample.intended / _PIECE_SECONDS)
        if piece not in calm:
            calm[piece] = stolen(used, piece * _PIECE_SECONDS, (piece + 2) * _PIECE_SECONDS) <= 0
        if calm[piece]:
            found.append(sample)
    return found


def seconds_of(began: float, until: float) -> Iterator[tuple[float, float]]:
    """Consecutive intervals of one second; the last may be shorter."""
    at = began
    while at < until - 1e-6:
        yield at, min(until, at + 1.0)
        at += 1.0


def needed_cpus(machine_cpus: float, batch_cpus: float, machine: MachineUse) -> float:
    """The CPU seconds needed and lost, as defined in the docstring of the module."""
    over = machine_cpus - batch_cpus + machine.wanted - machine.target * machine.cpus
    return min(machine.wanted, max(0.0, over))


def figures(seen: SurgeSeen, machine: MachineUse) -> SurgeFigures:
    """The results of one surge."""
    needed = lost = above = 0.0
    line = machine.waterline * machine.cpus
    for began, ended in seconds_of(seen.began, seen.until):
        whole, batch = rate(seen.used, began, ended)
        needed += needed_cpus(whole, batch, machine) * (ended - began)
        lost += (machine.wanted - batch) * (ended - began)
        above += (ended - began) * (whole > line and began < seen.ended)
    crossed, below = _below(seen, line)
    actions = [one for one in seen.lowered if seen.began <= one.at <= seen.until]
    return SurgeFigures(
        policy=seen.policy,
        needed=round(needed, 3),
        lost=round(lost, 3),
        seconds_above=round(above, 2),
        crossed=crossed,
        seconds_to_below=below,
        pods=len({one.pod for one in actions}),
        actions=len(actions),
        p99_ms=p99_ms(seen.samples),
        stolen=round(stolen(seen.used, seen.began, seen.ended), 2),
    )


def _below(seen: SurgeSeen, line: float) -> tuple[bool, float | None]:
    """Whether a second of the surge was above the waterline, and the start of the first one at or below it after
    that."""
    crossed = False
    for step in range(max(0, int((seen.ended - seen.began - 1.0) / _STEP_SECONDS + 1e-6)) + 1):
        began = seen.began + step * _STEP_SECONDS
        whole, _ = rate(seen.used, began, began + 1.0)
        if crossed and whole <= line:
            return True, round(began - seen.began, 2)
        crossed = crossed or whole > line
    return crossed, None


def outcome(
    found: Sequence[SurgeFigures],
    samples: Sequence[Sample],
    calm: Sequence[Sample] = (),
) -> ComparisonOutcome:
    """The results of one policy over all surges; `calm` are the latencies of requests without steal."""
    needed, lost = sum(one.needed for one in found), sum(one.lost for one in found)
    crossed = [one for one in found if one.crossed]
    below = [one.seconds_to_below for one in crossed if one.seconds_to_below is not None]
    return ComparisonOutcome(
        surges=len(found),
        crossed=len(crossed),
        never_below=len(crossed) - len(below),
        requests=len(samples),
        errors=sum(not one.ok for one in samples),
        p99_ms=p99_ms(samples),
        p99_median_ms=median([one.p99_ms for one in found]),
        p99_undisturbed_ms=p99_of_enough_ms(calm),
        stolen=round(sum(one.stolen for one in found), 2),
        needed=round(needed, 2),
        lost=round(lost, 2),
        above_needed_ratio=round(lost / needed - 1, 3) if needed > 0 else None,
        seconds_above=round(sum(one.seconds_above for one in found), 2),
        pods_a_surge=round(sum(one.pods for one in found) / len(found), 1) if found else 0.0,
        actions=sum(one.actions for one in found),
        below_p50_seconds=_quantile(below, 0.5),
        below_p99_seconds=_quantile(below, 0.99),
        below_max_seconds=max(below, default=None),
    )


def median(values: Sequence[float | None]) -> float | None:
    """The median of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 2) if known else None


def p99_ms(samples: Sequence[Sample]) -> float | None:
    return _quantile([1000 * one.latency for one in samples], 0.99)


def p99_of_enough_ms(samples: Sequence[Sample]) -> float | None:
    return p99_ms(samples) if len(samples) >= ENOUGH_REQUESTS else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    found = percentile(values, q)
    return None if found is None else round(found, 2)
