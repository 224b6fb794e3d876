"""The health of the control loop: the time from sample to effect, and the state of its processes.

Durations in seconds, times aware UTC. None means unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.charts.latency_chart import DurationSpread
from slackwater.decisions.reasons import DecisionKind
from slackwater.model.limited_resource import LimitedResource, fullest_first

SILENT_INTERVALS = 3
"""A process that has not reported for this many of its intervals is silent."""


@dataclass(frozen=True, slots=True)
class LoopTime:
    """The times of one action: sample to decision, decision to the kernel write, decision to the measurement."""

    decision_id: str
    node: str
    kind: DecisionKind
    decided_at: datetime
    to_decision: float | None
    to_write: float | None
    to_measurement: float | None

    @property
    def to_effect(self) -> float | None:
        """Seconds from the sample to the write."""
        if self.to_decision is None or self.to_write is None:
            return None
        return self.to_decision + self.to_write


def spreads_of(times: Iterable[LoopTime]) -> tuple[DurationSpread, ...]:
    """The distribution of each stage, then of the whole path."""
    found = list(times)
    return (
        DurationSpread("decide", "sample → decision", _known(t.to_decision for t in found)),
        DurationSpread("write", "decision → limit written", _known(t.to_write for t in found)),
        DurationSpread("effect", "sample → limit written", _known(t.to_effect for t in found)),
    )


def _known(values: Iterable[float | None]) -> tuple[float, ...]:
    """The valid durations. Clocks of two machines may differ slightly, so negative durations are dropped."""
    return tuple(max(0.0, value) for value in values if value is not None)


@dataclass(frozen=True, slots=True)
class CheckView:
    """One line of a service's readiness."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One partition of a service; without `owner` no replica processes it."""

    partition: int
    owner: str | None
    epoch: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service as its process reported it. Outbox numbers are None if it has none, or it did not answer."""

    name: str
    state: str
    restarts: int
    last_error: str
    checks: tuple[CheckView, ...]
    outbox_depth: int | None
    outbox_oldest_seconds: float | None
    outbox_refused: int | None
    member: str | None = None
    members: int = 0
    leases: tuple[LeaseView, ...] = ()

    @property
    def well(self) -> bool:
        return self.state == "running" and all(check.ok for check in self.checks)


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process and its services, as reported at `reported_at`."""

    instance: str
    version: str
    started_at: datetime
    reported_at: datetime
    interval_seconds: float
    services: tuple[ServiceView, ...]
    limited: tuple[LimitedResource, ...] = ()

    def silent(self, now: datetime) -> bool:
        """Whether its next report is overdue."""
        return (now - self.reported_at).total_seconds() > SILENT_INTERVALS * self.interval_seconds


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A service in a process; `service` is None if no process has reported it."""

    name: str
    process: ProcessView | None
    service: ServiceView | None
    silent: bool

    @property
    def word(self) -> str:
        """`running`, `unwell`, `silent`, `unknown`, or the supervisor's state."""
        if self.service is None:
            return "unknown"
        if self.silent:
            return "silent"
        return self.service.state if self.service.well or self.service.state != "running" else "unwell"


@dataclass(frozen=True, slots=True)
class LimitedRow:
    """What can be used up, as one process reported it; `instance` is empty for what all processes share."""

    instance: str
    resource: LimitedResource


def limited_rows(processes: Iterable[ProcessView], now: datetime) -> list[LimitedRow]:
    """The fullest first. What is shared is listed once, by its newest report; silent processes are left out."""
    rows: dict[tuple[str, str], LimitedRow] = {}
    for process in sorted(processes, key=lambda process: process.reported_at):
        for resource in () if process.silent(now) else process.limited:
            instance = "" if resource.kind.is_shared else process.instance
            rows[instance, resource.label] = LimitedRow(instance, resource)
    order = fullest_first(row.resource for row in rows.values())
    return sorted(rows.values(), key=lambda row: (order.index(row.resource), row.instance))


def service_rows(processes: Sequence[ProcessView], expected: Sequence[str], now: datetime) -> list[ServiceRow]:
    """Rows by name. A silent process is left out once another process reports the same service; an expected service is
    always listed.
    """
    rows: list[ServiceRow] = []
    for process in sorted(processes, key=lambda process: process.instance):
        rows += [ServiceRow(s.name, process, s, process.silent(now)) for s in process.services]
    told = {row.name for row in rows if not row.silent}
    rows = [row for row in rows if not (row.silent and row.name in told)]
    known = {row.name for row in rows}
    rows += [ServiceRow(name, None, None, False) for name in expected if name not in known]
    return sorted(rows, key=lambda row: row.name)
