"""The pipeline of moves: stages, what holds jobs back, and how evenly nodes are loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from slackwater.decisions.record import DecisionRecord
from slackwater.model.quantities import Resources

BUCKETS: Final = 10
"""Of the distribution: tenths of the capacity; the last one holds everything from 90 % on."""


class PipelineStage(StrEnum):
    """Where a job is, in the order of the pipeline."""

    PROPOSED = "proposed"
    ARBITRATED = "arbitrated"
    RESERVED = "reserved"
    EVICTING = "evicting"
    READY = "ready"
    FAILED = "failed"


_OF_STEP: Final = {
    "waiting": PipelineStage.PROPOSED,
    "admitted": PipelineStage.ARBITRATED,
    "reserving": PipelineStage.RESERVED,
    "evicting": PipelineStage.EVICTING,
    "withdrawing": PipelineStage.EVICTING,
    "replacing": PipelineStage.EVICTING,
}
ENDED: Final = "ended"
SUCCEEDED: Final = "Succeeded"
WAITING: Final = "waiting"


def stage_of(step: str, phase: str) -> PipelineStage:
    """Returns the stage of a job; one with a step that this version does not know counts as under way."""
    if step == ENDED:
        return PipelineStage.READY if phase == SUCCEEDED else PipelineStage.FAILED
    return _OF_STEP.get(step, PipelineStage.EVICTING)


@dataclass(frozen=True, slots=True)
class MoveCount:
    """How many jobs are in one state."""

    step: str
    phase: str
    outcome: str
    jobs: int


@dataclass(frozen=True, slots=True)
class MoveHold:
    """Jobs that one filter holds at one scope (a node, a workload …): `count` of `limit` were in use there, as of the
    newest of them; the first has waited since `since`."""

    filter: str
    scope: str
    jobs: int
    count: int
    limit: int
    since: datetime


@dataclass(frozen=True, slots=True)
class MoveGain:
    """What a move took off its old node, in shares of that node's capacity, beside what its plan expected."""

    expected: float
    measured: float
    decision_id: str


def move_gain(record: DecisionRecord) -> MoveGain | None:
    """Returns the figures of a record of a measured gain; None for one that lacks them, as of another version."""
    figures = {each.name: each.value for each in record.inputs}
    expected, measured = figures.get("expected gain"), figures.get("measured gain")
    if not isinstance(expected, (int, float)) or not isinstance(measured, (int, float)):
        return None
    return MoveGain(float(expected), float(measured), record.id)


@dataclass(frozen=True, slots=True)
class GainSum:
    """The gains of several moves: their mean, expected and measured."""

    moves: int
    expected: float
    measured: float


def gain_sum(gains: Sequence[MoveGain]) -> GainSum | None:
    """Returns the means; None without gains."""
    if not gains:
        return None
    return GainSum(
        len(gains),
        math.fsum(gain.expected for gain in gains) / len(gains),
        math.fsum(gain.measured for gain in gains) / len(gains),
    )


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """What a node used of what it has."""

    node: str
    used: Resources
    capacity: Resources

    def share(self, resource: str) -> float:
        """The used share of one resource, 0 for a node without it."""
        if resource == "memory":
            used, whole = self.used.memory_bytes, self.capacity.memory_bytes
        else:
            used, whole = self.used.cpu_milli, self.capacity.cpu_milli
        return used / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class LoadSpread:
    """The distribution of load over nodes: nodes per tenth of capacity, the mean, and the standard deviation."""

    nodes: int = 0
    buckets: Sequence[int] = ()
    mean: float = 0.0
    deviation: float = 0.0
    highest: float = 0.0


def load_spread(shares: Iterable[float]) -> LoadSpread:
    """Returns the distribution of the loads of nodes, as shares of their capacity."""
    values = sorted(shares)
    if not values:
        return LoadSpread(buckets=(0,) * BUCKETS)
    buckets = [0] * BUCKETS
    for value in values:
        buckets[min(max(int(value * BUCKETS + 1e-9), 0), BUCKETS - 1)] += 1
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return LoadSpread(len(values), tuple(buckets), mean, deviation, values[-1])
