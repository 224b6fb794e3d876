"""The plan: actions on pods, reasons for sparing others, and gaps that stay open."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import QuotaChange
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.facts.amounts import Number


class Step(Struct, frozen=True, gc=False):
    """One chosen pod. `keys` are its place in the order, `released` the effect per metric (a
    restore: its cost). `metric` is the demand that chose it.
    """

    kind: ActionKind
    uid: str
    name: str
    metric: str
    keys: tuple[Number, ...] = ()
    released: tuple[tuple[str, Decimal], ...] = ()
    changes: tuple[QuotaChange, ...] = ()
    grace_seconds: int | None = None


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
    """An eviction in progress: credited with the pod's usage until it is gone or `until`.
    `begun_at` is its entry in `ExecutorState.begun_at` (None: begun by another owner, or stored by
    an earlier version).
    """

    uid: str
    until: datetime
    begun_at: datetime | None = None


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
