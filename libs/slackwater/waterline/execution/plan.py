"""The plan: actions on pods, reasons for sparing others, gaps that stay open, and the credits from
which they follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec import Struct

from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import QuotaChange
from slackwater.waterline.actuation.memory_high import MemoryChange
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.facts.amounts import ZERO, Number


class Step(Struct, frozen=True, gc=False):
    """One chosen pod. `keys` are its place in the order, `released` the effect per metric (a
    restore: its cost). `metric` is the demand that chose it. `changes` are of CPU, `memory` is of memory.
    """

    kind: ActionKind
    uid: str
    name: str
    metric: str
    keys: tuple[Number, ...] = ()
    released: tuple[tuple[str, Decimal], ...] = ()
    changes: tuple[QuotaChange, ...] = ()
    grace_seconds: int | None = None
    memory: MemoryChange | None = None


class Spared(Struct, frozen=True, gc=False):
    """A candidate that was spared, and why."""

    kind: ActionKind
    uid: str
    name: str
    because: str


@record(frozen=True, slots=True)
class Remaining:
    """The outcome of one demand. `gap` None: unknown. `open` is the part that stays open, `because`
    the reason.
    """

    kind: ActionKind
    metric: str
    gap: Decimal | None
    released: Decimal
    open: Decimal | None
    because: str = ""

    @property
    def is_closed(self) -> bool:
        return self.open is not None and self.open <= 0


@record(frozen=True, slots=True)
class Underway:
    """An eviction in progress: once it is accepted, credited with the pod's usage until it is gone or `until`.
    `begun_at` is its entry in `ExecutorState.begun_at` (None: begun by another owner).
    `answer_by`: it is not accepted yet, and given up then; None: it is accepted.
    """

    uid: str
    until: datetime
    begun_at: datetime | None = None
    answer_by: datetime | None = None


@record(frozen=True, slots=True)
class Refused:
    """A pod whose eviction or limit was refused: not retried, and not credited, before `until`."""

    uid: str
    kind: ActionKind
    because: str
    until: datetime


@record(frozen=True, slots=True)
class ExecutorState:
    """The execution state of a node between two cycles, by pod uid. `begun_at` are the evictions of
    the last hour.
    """

    underway: tuple[Underway, ...] = ()
    refused: tuple[Refused, ...] = ()
    begun_at: tuple[datetime, ...] = ()


@record(frozen=True, slots=True)
class Plan:
    """The actions of one cycle, in order of execution."""

    steps: tuple[Step, ...] = ()
    spared: tuple[Spared, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    state: ExecutorState = field(default_factory=ExecutorState)

    def of(self, kind: ActionKind) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind is kind)


Amounts = Mapping[str, Decimal]
CLOSED: Final = "the gap is closed"
AWAITED: Final = "evictions that would close the gap are not accepted yet"


class ReleaseLedger:
    """Credits by metric. Every action is credited to every metric, whichever requested it."""

    def __init__(self, released: Amounts | None = None) -> None:
        self._released: dict[str, Decimal] = dict(released or {})

    def with_those_of(self, other: ReleaseLedger) -> ReleaseLedger:
        """Returns a new ledger with the credits of both."""
        both = ReleaseLedger(self._released)
        both.credit(other._released)
        return both

    def credit(self, amounts: Amounts, sign: int = 1) -> None:
        for metric, amount in amounts.items():
            self._released[metric] = self._released.get(metric, ZERO) + sign * amount

    def released(self, demand: Demand) -> Decimal:
        return self._released.get(demand.metric.name, ZERO)

    def open(self, demand: Demand) -> Decimal:
        """Returns the open part of a demand whose gap is known."""
        left = (demand.gap or ZERO) - self.released(demand)
        return left if left > ZERO else ZERO

    def left_for(self, candidate: Candidate, demand: Demand) -> Decimal:
        """Returns the open part of the gap that this pod may help with."""
        left = (candidate.gap or ZERO) - self.released(demand)
        return left if left > ZERO else ZERO

    def is_closed(self, demand: Demand) -> bool:
        """Returns whether the demand is closed: no candidate's gap is larger than the demand's.
        Never true of an unknown gap.
        """
        return demand.gap is not None and self.released(demand) >= demand.gap


def nonzero(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    return {metric: amount for metric, amount in amounts if amount > ZERO}
