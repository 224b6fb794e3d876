"""What two policies cost and brought in the same surges, from the kernel's own counters: pure.

Every figure can be checked by hand. In each second after a surge began, with C CPUs, batch wanting D:

    needed = CPU that batch had to leave so that the machine stays at the target: machine - batch + D - target x C,
             not below 0 and not above D
    lost   = D - batch: what batch wanted and did not get

both summed until batch has everything back. D is what batch uses while the service rests, over all surges.

On a virtual machine the host may run somebody else meanwhile (steal). That time is not there to be used, and counts as
the machine's use, for the agent as here. No policy can give it back: it is told for itself, and so is the p99 of the
requests that met none of it.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from slackwater.demo.load import Sample, percentile

P99_FACTOR, MOST_LOST_ABOVE_NEEDED, BELOW_WITHIN_SECONDS = 1.2, 0.15, 2.0
_STEP_SECONDS = 0.1
_PIECE_SECONDS = 0.5
ENOUGH_REQUESTS = 200
"""For a p99: of fewer it is one of the two slowest."""


@dataclass(frozen=True, slots=True)
class Used:
    """Cumulative CPU seconds at one moment (monotonic seconds): of the whole machine, of batch, and of the host that
    took them from the machine (part of its use)."""

    at: float
    machine: float
    batch: float
    stolen: float = 0.0


@dataclass(frozen=True, slots=True)
class Lowered:
    """At `at` the quota of a batch pod was seen to sink."""

    at: float
    pod: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What figures are held against: CPUs, and waterline and target as shares of them; `wanted` is batch's, in CPUs."""

    cpus: float
    waterline: float
    target: float
    wanted: float


@dataclass(frozen=True, slots=True)
class SurgeSeen:
    """One surge: when it began and ended, and when batch was free again (`until`), with all that was read meanwhile."""

    policy: str
    began: float
    ended: float
    until: float
    used: Sequence[Used]
    lowered: Sequence[Lowered]
    samples: Sequence[Sample]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class SurgeFigures(_Part):
    """Of one surge; CPU in CPU seconds. `seconds_to_below`: from its start to the start of the first whole second at or
    below the waterline after one above it, None if there was none before its end, or it never was above (`crossed`).
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
    """By the host, while the surge lasted."""


class Outcome(_Part):
    """Of one policy over all its surges. Latencies in milliseconds, CPU in CPU seconds, times in seconds."""

    surges: int
    crossed: int
    never_below: int
    requests: int
    errors: int
    p99_ms: float | None
    """Over all requests; `p99_median_ms` of the surge in the middle, which no single stall of the machine can move."""
    p99_median_ms: float | None = None
    p99_undisturbed_ms: float | None = None
    """Over the requests of pieces of half a second from which the host took nothing; None of fewer than 200."""
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


class Comparison(_Part):
    """`run-summary.json`: comparison. `left_out` says why there is none, or why it ended early."""

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
    """Of the service alone, over the very requests that each surge here has, before each pair."""
    alone_p99_undisturbed_ms: float | None = None
    alone_stolen: float = 0.0
    outcomes: Mapping[str, Outcome] = {}
    surges: tuple[SurgeFigures, ...] = ()


def rate(used: Sequence[Used], began: float, ended: float) -> tuple[float, float]:
    """Mean CPUs of the machine and of batch between two moments, straight lines between readings; 0 without any."""
    if len(used) < 2 or ended <= began:
        return 0.0, 0.0
    first, last = _at(used, began), _at(used, ended)
    return (last.machine - first.machine) / (ended - began), (last.batch - first.batch) / (ended - began)


def _at(used: Sequence[Used], moment: float) -> Used:
    index = min(max(1, bisect_left(used, moment, key=lambda one: one.at)), len(used) - 1)
    before, after = used[index - 1], used[index]
    share = 0.0 if after.at <= before.at else min(1.0, max(0.0, (moment - before.at) / (after.at - before.at)))
    return Used(
        moment,
        before.machine + share * (after.machine - before.machine),
        before.batch + share * (after.batch - before.batch),
        before.stolen + share * (after.stolen - before.stolen),
    )


def stolen(used: Sequence[Used], began: float, ended: float) -> float:
    """CPU seconds that the host took between two moments; 0 where nothing is known."""
    return 0.0 if len(used) < 2 or ended <= began else _at(used, ended).stolen - _at(used, began).stolen


def undisturbed(samples: Sequence[Sample], used: Sequence[Used]) -> list[Sample]:
    """The requests that were meant for a piece of half a second from which, and from the one after it, the host took
    nothing. Whole pieces go, never a request because it was slow."""
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
    """Whole seconds one after the other, the last as long as it is."""
    at = began
    while at < until - 1e-6:
        yield at, min(until, at + 1.0)
        at += 1.0


def needed_cpus(machine_cpus: float, batch_cpus: float, machine: Machine) -> float:
    """See the module's docstring."""
    over = machine_cpus - batch_cpus + machine.wanted - machine.target * machine.cpus
    return min(machine.wanted, max(0.0, over))


def figures(seen: SurgeSeen, machine: Machine) -> SurgeFigures:
    """One surge."""
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
    """Whether a second of the surge was above, and when the first one at or below began after that."""
    crossed = False
    for step in range(max(0, int((seen.ended - seen.began - 1.0) / _STEP_SECONDS + 1e-6)) + 1):
        began = seen.began + step * _STEP_SECONDS
        whole, _ = rate(seen.used, began, began + 1.0)
        if crossed and whole <= line:
            return True, round(began - seen.began, 2)
        crossed = crossed or whole > line
    return crossed, None


def outcome(found: Sequence[SurgeFigures], samples: Sequence[Sample], calm: Sequence[Sample] = ()) -> Outcome:
    """All surges of one policy together; `calm` are those of the requests that the host left undisturbed."""
    needed, lost = sum(one.needed for one in found), sum(one.lost for one in found)
    crossed = [one for one in found if one.crossed]
    below = [one.seconds_to_below for one in crossed if one.seconds_to_below is not None]
    return Outcome(
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
    """Of those that are known: the one in the middle, or the mean of the two there; None without any."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 2) if known else None


def p99_ms(samples: Sequence[Sample]) -> float | None:
    return _quantile([1000 * one.latency for one in samples], 0.99)


def p99_of_enough_ms(samples: Sequence[Sample]) -> float | None:
    return p99_ms(samples) if len(samples) >= ENOUGH_REQUESTS else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    found = percentile(values, q)
    return None if math.isnan(found) else round(found, 2)
