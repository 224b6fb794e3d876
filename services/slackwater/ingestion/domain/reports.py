"""A report in the types of ingestion, and the stored state of its node."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from typing import NamedTuple

from slackwater.model.nodes import Liveness
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import Tier


class UsageSeries(NamedTuple):
    """A distribution over one report, in milli-cores or bytes. With `samples` 0 the other fields are void."""

    avg: int
    p50: int
    p90: int
    p95: int
    p99: int
    max: int
    last: int
    samples: int


class Pressures(NamedTuple):
    """Ratios of wall time in which some task waited, 0..1; None where the kernel provides none."""

    node_cpu_last: float | None = None
    node_cpu_avg: float | None = None
    node_cpu_max: float | None = None
    node_memory_avg: float | None = None
    node_io_avg: float | None = None
    prod_cpu_last: float | None = None
    prod_cpu_avg: float | None = None
    prod_cpu_max: float | None = None


NO_PRESSURES = Pressures()


class MeasuredPod(NamedTuple):
    """One pod in one report."""

    pod: Pod
    cpu: UsageSeries
    memory: UsageSeries
    cpu_limit_milli: int | None = None
    throttled_ratio: float | None = None
    cpu_pressure: float | None = None


class MeasuredApp(NamedTuple):
    """One host application in one report."""

    name: str
    tier: Tier
    cpu: UsageSeries
    memory: UsageSeries


@record(frozen=True, slots=True)
class Report:
    """One node, from `sampled_at - window_seconds` to `sampled_at`, by the agent's clock."""

    node: str
    boot_epoch: str
    sequence: int
    sampled_at: datetime
    window_seconds: float
    cpu: UsageSeries
    memory: UsageSeries
    system_cpu: UsageSeries | None = None
    system_memory: UsageSeries | None = None
    pressures: Pressures = NO_PRESSURES
    pods: tuple[MeasuredPod, ...] = ()
    host_apps: tuple[MeasuredApp, ...] = ()
    failed: tuple[Pod, ...] = ()
    """Pods that have ended with a failure. Checked with the report, not kept in history: they use nothing."""

    @property
    def midpoint_at(self) -> datetime:
        """The middle of the measured span. The report belongs to the window that contains this instant."""
        return self.sampled_at - timedelta(seconds=self.window_seconds / 2)


@record(frozen=True, slots=True)
class Arrival:
    """A report with its transport data: the key of its subject, and the server's time of receipt."""

    report: Report
    subject_key: str
    received_at: datetime


@record(frozen=True, slots=True)
class SequenceTrack:
    """The sequence state of an agent's numbered reports. `missing` holds the newest holes below `last`, and
    `previous_epochs` the agents that were replaced, the newest first.
    """

    boot_epoch: str | None = None
    previous_epochs: tuple[str, ...] = ()
    last: int = 0
    missing: tuple[int, ...] = ()


@record(frozen=True, slots=True)
class KnownNode:
    """State that ingestion keeps of a node between reports.

    `capacity` is None until the node was described. `newest_at` is the latest midpoint in history, `closed_until` the
    end of the last closed window; windows before it are never reopened. `gaps` counts missing reports. While reports
    are missing, `hole_from` is the midpoint after which the first of them belongs, and `hole_seen_at` is when the
    newest hole was noticed. `deleted_at` is when the node was deleted; a report brings it back.
    """

    name: str
    capacity: Resources | None = None
    track: SequenceTrack = field(default_factory=SequenceTrack)
    last_report_at: datetime | None = None
    liveness: Liveness | None = None
    newest_at: datetime | None = None
    closed_until: datetime | None = None
    gaps: int = 0
    hole_from: datetime | None = None
    hole_seen_at: datetime | None = None
    deleted_at: datetime | None = None


@record(frozen=True, slots=True)
class HistoryRow:
    """An accepted report as stored in history. `gap_delta` is the number of reports missing right before it, or -1 for
    a report that fills a hole. `late` marks a report that came after its window was closed.
    """

    report: Report
    received_at: datetime
    gap_delta: int = 0
    late: bool = False
