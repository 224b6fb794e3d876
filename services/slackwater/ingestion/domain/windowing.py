"""Aligned windows of usage from the reports whose midpoints lie in them.

Percentiles of a window are merged from the percentiles of its reports. A report gives five points of its distribution.
It stands for its samples as 50 % at p50, 40 % at p90, 5 % at p95, 4 % at p99 and 1 % at the maximum, weighted with its
number of samples, and the nearest rank is taken over all reports. Every sample is thus placed at the upper end of its
bracket. The result is never below the true percentile of the pooled samples, and exceeds it by at most the widest
bracket of a report. The maximum is exact, the average is exact up to rounding, and the percentiles of a window with a
single report are exact.

The usage of a tier in one report is the sum over its pods. Its average is exact. Its percentiles are sums of the pods'
percentiles, which overstate the true ones when pods do not peak together: the sum of maxima is an upper bound.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby, pairwise

from slackwater.ingestion.domain.reports import HistoryRow, KnownNode, MeasuredApp, MeasuredPod, Report, UsageSeries
from slackwater.model.identifiers import SHARDS
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHARES = (50, 40, 5, 4, 1)  # percent of the samples at p50, p90, p95, p99, max
_VOID = UsageSeries(0, 0, 0, 0, 0, 0, 0, 0)


@record(frozen=True, slots=True)
class Merged:
    """One series over one window."""

    avg: int
    p90: int
    p95: int
    max: int
    samples: int


@record(frozen=True, slots=True)
class WindowAmounts:
    """CPU in milli-cores and memory in bytes over one window."""

    cpu: Merged
    memory: Merged


@record(frozen=True, slots=True)
class HostAppWindow:
    """A host application over one window."""

    name: str
    tier: Tier
    usage: WindowAmounts


@record(frozen=True, slots=True)
class Window:
    """One node in one closed window. `number` is its start in seconds since 1970 // its length."""

    node: str
    number: int
    start: datetime
    seconds: int
    usage: WindowAmounts
    system: WindowAmounts | None
    tiers: Mapping[Tier, WindowAmounts]
    pods: tuple[tuple[Pod, WindowAmounts], ...]
    reports: int
    gaps: int
    host_apps: tuple[HostAppWindow, ...] = ()


Phase = Callable[[str], int]
"""Returns by how many seconds (less than a window) a node's windows start after those aligned to 1970."""


def aligned(node: str) -> int:
    """Returns 0: the windows of all nodes start together."""
    return 0


def staggered(seconds: int) -> Phase:
    """Returns phases that start every node's windows at a different second.

    The windows of thousands of nodes, and their predictions and offers, then end one after the other instead of at the
    same moment. `start // seconds` still numbers them.
    """
    return lambda node: zlib.crc32(node.encode()) // SHARDS % seconds


def number_of(moment: datetime, seconds: int, phase: int = 0) -> int:
    """Returns the number of the window that contains `moment`; windows include their start and exclude their end."""
    return (moment - _EPOCH - timedelta(seconds=phase)) // timedelta(seconds=seconds)


def start_of(number: int, seconds: int, phase: int = 0) -> datetime:
    return _EPOCH + timedelta(seconds=number * seconds + phase)


def begins_window(before: datetime | None, newest_at: datetime | None, seconds: int, phase: int) -> bool:
    """Returns whether a node's newest report lies in another window than the one before it."""
    if before is None or newest_at is None:
        return False
    return number_of(before, seconds, phase) != number_of(newest_at, seconds, phase)


@record(frozen=True, slots=True)
class Waiting:
    """The times that closing waits for.

    Windows that ended before `over_at` have had their lateness. A node is silent if its last report came before
    `silent_since`. Holes noticed after `holes_since` may still be filled by redelivery.
    """

    over_at: datetime
    silent_since: datetime
    holes_since: datetime


def close_limit(known: KnownNode, waiting: Waiting, seconds: int, phase: int = 0) -> datetime | None:
    """Returns the time up to which a node's windows may be closed now; None if nothing more can be closed.

    The limit is never past the newest report: while a backlog is processed, later reports belong to later windows. A
    window closes when a report has started the next one and no earlier report is missing, because then no report of it
    can be in flight. With reports missing, it also waits for its lateness, and while those may still be redelivered.
    The window of the newest report closes when its node falls silent.
    """
    if known.newest_at is None or known.last_report_at is None:
        return None
    newest = number_of(known.newest_at, seconds, phase)
    over = start_of(number_of(waiting.over_at, seconds, phase), seconds, phase)
    limit = start_of(newest, seconds, phase)
    if known.hole_from is not None:
        limit = min(limit, over)
    if known.last_report_at <= waiting.silent_since:
        limit = max(limit, min(over, start_of(newest + 1, seconds, phase)))
    if known.hole_from and known.hole_seen_at and known.hole_seen_at > waiting.holes_since:
        limit = min(limit, start_of(number_of(known.hole_from, seconds, phase), seconds, phase))
    return limit if known.closed_until is None or limit > known.closed_until else None


def is_late(known: KnownNode, report: Report) -> bool:
    """Returns whether the report's window was closed before the report came."""
    return known.closed_until is not None and report.midpoint_at < known.closed_until


@record(frozen=True, slots=True)
class Before:
    """An agent's reports before the first one of a span: the sequence of the newest that was in time (None if there is
    none), and how many late reports followed it.
    """

    sequence: int | None = None
    late: int = 0


Agent = tuple[str, str]
"""Node and boot epoch."""


def heads(rows: Iterable[HistoryRow]) -> dict[Agent, HistoryRow]:
    """Returns each agent's report with the lowest sequence, if its `gap_delta` is not 0.

    Only then can reports right before it be missing.
    """
    first: dict[Agent, HistoryRow] = {}
    for row in rows:
        agent = row.report.node, row.report.boot_epoch
        if not row.late and (agent not in first or row.report.sequence < first[agent].report.sequence):
            first[agent] = row
    return {agent: row for agent, row in first.items() if row.gap_delta}


def close_windows(
    rows: Iterable[HistoryRow], seconds: int, phase: Phase = aligned, before: Mapping[Agent, Before] | None = None
) -> list[Window]:
    """Returns all windows of the rows by node and number. The order of the rows has no effect; late rows are left out.

    `before`: the reports before the `heads` of these rows. This is the reference for windows_at_once.
    """
    grouped: dict[tuple[str, int], list[HistoryRow]] = defaultdict(list)
    for row in rows:
        if not row.late:
            node = row.report.node
            grouped[node, number_of(row.report.midpoint_at, seconds, phase(node))].append(row)
    gaps = gaps_of([row for group in grouped.values() for row in group], seconds, phase, before or {})
    return [
        _window(node, start_of(number, seconds, phase(node)), seconds, grouped[node, number], gaps[node, number])
        for node, number in sorted(grouped)
    ]


def gaps_of(
    rows: Sequence[HistoryRow], seconds: int, phase: Phase, before: Mapping[Agent, Before]
) -> Counter[tuple[str, int]]:
    """Counts missing reports by node and window. A hole between two reports counts in the window of the later one.

    Sequences are compared, not the gap counted at arrival. A hole that has been filled since is not counted, even if it
    lay across two windows that are closed one after the other.
    """
    gaps: Counter[tuple[str, int]] = Counter()
    ordered = sorted(rows, key=lambda row: (row.report.node, row.report.boot_epoch, row.report.sequence))
    for agent, group in groupby(ordered, key=lambda row: (row.report.node, row.report.boot_epoch)):
        own = list(group)
        offset = phase(own[0].report.node)
        keys = [(row.report.node, number_of(row.report.midpoint_at, seconds, offset)) for row in own]
        gaps[keys[0]] += missing_before(own[0], before.get(agent, Before()))
        for key, (row, later) in zip(keys[1:], pairwise(own), strict=True):
            gaps[key] += _missing_between(row, later)
    return gaps


def _missing_between(row: HistoryRow, later: HistoryRow) -> int:
    """Counts the reports missing between two of a window. A report that its agent's clock, set forward or back, has put
    into another window is not missing: the later one then followed it without a gap.
    """
    absent = later.report.sequence - row.report.sequence - 1
    return absent if later.gap_delta < 0 else min(absent, later.gap_delta)


def missing_before(head: HistoryRow, before: Before) -> int:
    """Counts the reports missing between the first one of a span and the newest in-time one before it."""
    if not head.gap_delta:
        return 0
    if before.sequence is not None:
        return max(0, head.report.sequence - before.sequence - 1 - before.late)
    first = head.report.sequence - 1 if head.gap_delta < 0 else head.gap_delta  # the agent has no older report
    return max(0, first - before.late)


def _window(node: str, start: datetime, seconds: int, rows: Sequence[HistoryRow], gaps: int) -> Window:
    reports = sorted((row.report for row in rows), key=lambda report: (report.sampled_at, report.boot_epoch))
    with_system = [report for report in reports if report.system_cpu and report.system_memory]
    return Window(
        node=node,
        number=number_of(start, seconds),
        start=start,
        seconds=seconds,
        usage=WindowAmounts(merge([report.cpu for report in reports]), merge([report.memory for report in reports])),
        system=WindowAmounts(
            merge([report.system_cpu or _VOID for report in with_system]),
            merge([report.system_memory or _VOID for report in with_system]),
        )
        if with_system
        else None,
        tiers=_tiers(reports),
        pods=_pods(reports),
        reports=len(reports),
        gaps=gaps,
        host_apps=apps_of(reports),
    )


def apps_of(reports: Iterable[Report]) -> tuple[HostAppWindow, ...]:
    """Returns each measured host application by name, merged over the reports that contain it.

    The tier is that of the newest report. Host applications are few, so both windowing modules merge them here.
    """
    measured: dict[str, list[MeasuredApp]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: (report.sampled_at, report.boot_epoch)):
        for app in report.host_apps:
            measured[app.name].append(app)
    return tuple(
        HostAppWindow(
            name, apps[-1].tier, WindowAmounts(merge([app.cpu for app in apps]), merge([app.memory for app in apps]))
        )
        for name, apps in sorted(measured.items())
    )


def merge(series: Sequence[UsageSeries]) -> Merged:
    """Merges the series of several reports into one (see the module's docstring). Without samples all fields are
    zero.
    """
    series = [report for report in series if report.samples]
    samples = sum(report.samples for report in series)
    if not samples:
        return Merged(0, 0, 0, 0, 0)
    total = sum(report.avg * report.samples for report in series)
    points = sorted(
        (value, share * report.samples)
        for report in series
        for value, share in zip((report.p50, report.p90, report.p95, report.p99, report.max), SHARES, strict=True)
    )
    return Merged(
        avg=(2 * total + samples) // (2 * samples),
        p90=_rank(points, 90 * samples),
        p95=_rank(points, 95 * samples),
        max=max(report.max for report in series),
        samples=samples,
    )


def _rank(points: Sequence[tuple[int, int]], rank: int) -> int:
    """Returns the first value with at least `wanted` of the weight (in percent times samples) at or below it."""
    reached = accumulate(weight for _, weight in points)
    return next(value for (value, _), weight in zip(points, reached, strict=True) if weight >= rank)


def _pods(reports: Sequence[Report]) -> tuple[tuple[Pod, WindowAmounts], ...]:
    """Returns each measured pod as the newest report describes it, by uid."""
    by_uid: dict[str, list[MeasuredPod]] = defaultdict(list)
    for report in reports:
        for measured in report.pods:
            by_uid[measured.pod.uid].append(measured)
    return tuple(
        (
            by_uid[uid][-1].pod,
            WindowAmounts(merge([m.cpu for m in by_uid[uid]]), merge([m.memory for m in by_uid[uid]])),
        )
        for uid in sorted(by_uid)
    )


def _tiers(reports: Sequence[Report]) -> dict[Tier, WindowAmounts]:
    cpu: dict[Tier, list[UsageSeries]] = defaultdict(list)
    memory: dict[Tier, list[UsageSeries]] = defaultdict(list)
    for report in reports:
        for tier in {measured.pod.tier for measured in report.pods}:
            pods = [measured for measured in report.pods if measured.pod.tier == tier]
            cpu[tier].append(_together([measured.cpu for measured in pods]))
            memory[tier].append(_together([measured.memory for measured in pods]))
    return {tier: WindowAmounts(merge(cpu[tier]), merge(memory[tier])) for tier in sorted(cpu)}


def _together(series: Sequence[UsageSeries]) -> UsageSeries:
    """Adds up the series of pods in one report. The sample count is that of the longest series."""
    counted = [pod for pod in series if pod.samples]
    if not counted:
        return _VOID
    sums = (sum(values) for values in zip(*counted, strict=True))
    return UsageSeries(*sums)._replace(samples=max(pod.samples for pod in counted))
