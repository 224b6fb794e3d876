"""What is to be done to whom, why not to others, and what could not be closed."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import QuotaChange
from slackwater.waterline.analysis.demands import Kind
from slackwater.waterline.facts.amounts import Number


class Step(Struct, frozen=True, gc=False):
    """One pod that was chosen. `keys` are its place in the order, `released` what it means per metric (a restore:
    what it may cost). `metric` is the demand that chose it."""

    kind: Kind
    uid: str
    name: str
    metric: str
    keys: tuple[Number, ...] = ()
    released: tuple[tuple[str, Decimal], ...] = ()
    changes: tuple[QuotaChange, ...] = ()
    grace_seconds: int | None = None


class Spared(Struct, frozen=True, gc=False):
    """A pod that was looked at and left alone."""

    kind: Kind
    uid: str
    name: str
    because: str


@record(frozen=True, slots=True)
class Remaining:
    """What became of one demand. `gap` None: it could not be told. `open` is what stays, `because` why it does."""

    kind: Kind
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
    """An eviction that was begun: credited with what the pod uses until it is gone or `until`. `begun_at` is what it
    counts for in `ExecutorState.begun_at` (None: another owner's, or noted by an earlier version)."""

    uid: str
    until: datetime
    begun_at: datetime | None = None


@record(frozen=True, slots=True)
class Refused:
    """A pod whose eviction or limit was refused: not tried again, and never credited, before `until`."""

    uid: str
    kind: Kind
    because: str
    until: datetime


@record(frozen=True, slots=True)
class ExecutorState:
    """Between two cycles of a node, by pod uid. `begun_at` are the evictions of the last hour."""

    underway: tuple[Underway, ...] = ()
    refused: tuple[Refused, ...] = ()
    begun_at: tuple[datetime, ...] = ()


@record(frozen=True, slots=True)
class Plan:
    """All of one cycle; the order of steps is the order of doing."""

    steps: tuple[Step, ...] = ()
    spared: tuple[Spared, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    state: ExecutorState = field(default_factory=ExecutorState)

    def of(self, kind: Kind) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind is kind)
