"""Aligned windows of usage from the reports that fell into them.

Percentiles of a window are merged from the percentiles of its reports. A report says at five points of its distribution
how much lies at or below them; it stands for its samples as 50 % at p50, 40 % at p90, 5 % at p95, 4 % at p99 and 1 % at
the maximum, weighted with its number of samples, and the nearest rank is taken over all reports. Every sample is thus
placed at the upper end of its bracket: the result is never below the true percentile of the pooled samples, and
above it by no more than the widest bracket of a report. The maximum is exact, so is the average up to rounding, and
so are the percentiles of a window with a single report.

The usage of a tier in one report is the sum over its pods. Its average is exact; its percentiles are sums of the
pods' percentiles, which overstates them when pods do not peak together: the sum of maxima is an upper bound.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby, pairwise

from slackwater.ingestion.domain.reports import HistoryRow, KnownNode, MeasuredApp, MeasuredPod, Report, Series
from slackwater.model.identifiers import SHARDS
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHARES = (50, 40, 5, 4, 1)  # percent of the samples at p50, p90, p95, p99, max
_VOID = Series(0, 0, 0, 0, 0, 0, 0, 0)


@record(frozen=True, slots=True)
class Merged:
    """One series over one window."""

    avg: int
    p90: int
    p95: int
    max: int
    samples: int


@record(frozen=True, slots=True)
class Amounts:
    """CPU in milli-cores and memory in bytes over one window."""

    cpu: Merged
    memory: Merged


@record(frozen=True, slots=True)
class HostApp:
    """A host application over one window."""

    name: str
    tier: Tier
    usage: Amounts


@record(frozen=True, slots=True)
class Window:
    """One node in one closed window. `number` is its start in seconds since 1970 // its length."""

    node: str
    number: int
    start: datetime
    seconds: int
    usage: Amounts
    system: Amounts | None
    tiers: Mapping[Tier, Amounts]
    pods: tuple[tuple[Pod, Amounts], ...]
    reports: int
    gaps: int
    host_apps: tuple[HostApp, ...] = ()


Phase = Callable[[str], int]
"""By how many seconds (less than a window) the windows of a node begin later than those of 1970 would."""


def aligned(node: str) -> int:
    """All windows of all nodes begin together."""
    return 0


def staggered(seconds: int) -> Phase:
    """Every node's windows begin at a second of its own: the windows of thousands of nodes end one after the other,
    and so do predictions and offers, in place of all at once. `start // seconds` still numbers them."""
    return lambda node: zlib.crc32(node.encode()) // SHARDS % seconds


def number_of(moment: datetime, seconds: int, phase: int = 0) -> int:
    """The window that holds `moment`: from its start, included, to its end, excluded."""
    return (moment - _EPOCH - timedelta(seconds=phase)) // timedelta(seconds=seconds)


def start_of(number: int, seconds: int, phase: int = 0) -> datetime:
    return _EPOCH + timedelta(seconds=number * seconds + phase)


def closable_until(now: datetime, seconds: int, lateness_seconds: float, phase: int = 0) -> datetime:
    """The end of the last window that nothing is waited for any more: `lateness_seconds` after it ended."""
    return start_of(number_of(now - timedelta(seconds=lateness_seconds), seconds, phase), seconds, phase)


def begins_window(before: datetime | None, newest_at: datetime | None, seconds: int, phase: int) -> bool:
    """Whether a node's newest report lies in a later window than the one before it did."""
    if before is None or newest_at is None:
        return False
    return number_of(before, seconds, phase) != number_of(newest_at, seconds, phase)


@record(frozen=True, slots=True)
class Waiting:
    """What closing waits for: windows that ended before `over_at` have had their time; a node is silent if it was last
    heard before `silent_since`; holes noticed after `holes_since` may still be filled by redelivery."""

    over_at: datetime
    silent_since: datetime
    holes_since: datetime


def close_limit(known: KnownNode, waiting: Waiting, seconds: int, phase: int = 0) -> datetime | None:
    """How far the windows of a node may be closed now; None when no further than they are.

    Never past what has come: while a backlog is worked off, what is still to come belongs to later windows. A window is
    closed when the next one has begun with a report and no earlier report is missing: then nothing of it can be under
    way. With reports missing it also waits until it has been over for a while, and as long as those may still come.
    The window of the newest report is closed when its node fell silent.
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
    """Its window was closed before it came."""
    return known.closed_until is not None and report.midpoint_at < known.closed_until


@record(frozen=True, slots=True)
class Before:
    """What had come of an agent before the first report of a span: the newest that was in time (its sequence, None if
    there is none), and how many came late after that one."""

    sequence: int | None = None
    late: int = 0


Agent = tuple[str, str]
"""Node and boot epoch."""


def heads(rows: Iterable[HistoryRow]) -> dict[Agent, HistoryRow]:
    """The first report of each agent by number, where something was missing when it came, or it filled a hole: only
    then can reports right before it be missing."""
    found: dict[Agent, HistoryRow] = {}
    for row in rows:
        agent = row.report.node, row.report.boot_epoch
        if not row.late and (agent not in found or row.report.sequence < found[agent].report.sequence):
            found[agent] = row
    return {agent: row for agent, row in found.items() if row.gap_delta}


def close_windows(
    rows: Iterable[HistoryRow], seconds: int, phase: Phase = aligned, before: Mapping[Agent, Before] | None = None
) -> list[Window]:
    """All windows of all rows, by node and number; the order of the rows is irrelevant. Late rows belong to none.
    `before`: what had come before the `heads` of these rows. The reference of windows_at_once."""
    grouped: dict[tuple[str, int], list[HistoryRow]] = defaultdict(list)
    for row in rows:
        if not row.late:
            node = row.report.node
            grouped[node, number_of(row.report.midpoint_at, seconds, phase(node))].append(row)
    gaps = gaps_of([row for own in grouped.values() for row in own], seconds, phase, before or {})
    return [
        _window(node, start_of(number, seconds, phase(node)), seconds, grouped[node, number], gaps[node, number])
        for node, number in sorted(grouped)
    ]


def gaps_of(
    rows: Sequence[HistoryRow], seconds: int, phase: Phase, before: Mapping[Agent, Before]
) -> Counter[tuple[str, int]]:
    """Missing reports by node and window: holes between two reports count in the window of the later one.

    Numbers are compared, not what was believed when each report came: a hole that is filled by now is none, also where
    it lay across two windows that are closed one after the other.
    """
    gaps: Counter[tuple[str, int]] = Counter()
    ordered = sorted(rows, key=lambda row: (row.report.node, row.report.boot_epoch, row.report.sequence))
    for agent, group in groupby(ordered, key=lambda row: (row.report.node, row.report.boot_epoch)):
        own = list(group)
        offset = phase(own[0].report.node)
        keys = [(row.report.node, number_of(row.report.midpoint_at, seconds, offset)) for row in own]
        gaps[keys[0]] += missing_before(own[0], before.get(agent, Before()))
        for key, (row, later) in zip(keys[1:], pairwise(own), strict=True):
            gaps[key] += later.report.sequence - row.report.sequence - 1
    return gaps


def missing_before(head: HistoryRow, before: Before) -> int:
    """Reports that are missing between the first one of a span and the newest one before it that was in time."""
    if not head.gap_delta:
        return 0
    if before.sequence is not None:
        return max(0, head.report.sequence - before.sequence - 1 - before.late)
    first = head.report.sequence - 1 if head.gap_delta < 0 else head.gap_delta  # of this agent there is nothing older
    return max(0, first - before.late)


def _window(node: str, start: datetime, seconds: int, rows: Sequence[HistoryRow], gaps: int) -> Window:
    reports = sorted((row.report for row in rows), key=lambda report: (report.sampled_at, report.boot_epoch))
    with_system = [report for report in reports if report.system_cpu and report.system_memory]
    return Window(
        node=node,
        number=number_of(start, seconds),
        start=start,
        seconds=seconds,
        usage=Amounts(merge([report.cpu for report in reports]), merge([report.memory for report in reports])),
        system=Amounts(
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


def apps_of(reports: Iterable[Report]) -> tuple[HostApp, ...]:
    """Each host application that was measured, by name, over the reports that it is in; of several tiers the newest.
    They are few: nowhere else are they merged."""
    found: dict[str, list[MeasuredApp]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: (report.sampled_at, report.boot_epoch)):
        for app in report.host_apps:
            found[app.name].append(app)
    return tuple(
        HostApp(name, apps[-1].tier, Amounts(merge([one.cpu for one in apps]), merge([one.memory for one in apps])))
        for name, apps in sorted(found.items())
    )


def merge(series: Sequence[Series]) -> Merged:
    """One series from those of several reports (see above). Without samples all is zero."""
    series = [one for one in series if one.samples]
    samples = sum(one.samples for one in series)
    if not samples:
        return Merged(0, 0, 0, 0, 0)
    total = sum(one.avg * one.samples for one in series)
    points = sorted(
        (value, share * one.samples)
        for one in series
        for value, share in zip((one.p50, one.p90, one.p95, one.p99, one.max), SHARES, strict=True)
    )
    return Merged(
        avg=(2 * total + samples) // (2 * samples),
        p90=_rank(points, 90 * samples),
        p95=_rank(points, 95 * samples),
        max=max(one.max for one in series),
        samples=samples,
    )


def _rank(points: Sequence[tuple[int, int]], wanted: int) -> int:
    """The first value with at least `wanted` of the weight (in percent times samples) at or below it."""
    reached = accumulate(weight for _, weight in points)
    return next(value for (value, _), weight in zip(points, reached, strict=True) if weight >= wanted)


def _pods(reports: Sequence[Report]) -> tuple[tuple[Pod, Amounts], ...]:
    """Each pod that was measured, as the newest report describes it, by uid."""
    found: dict[str, list[MeasuredPod]] = defaultdict(list)
    for report in reports:
        for measured in report.pods:
            found[measured.pod.uid].append(measured)
    return tuple(
        (found[uid][-1].pod, Amounts(merge([m.cpu for m in found[uid]]), merge([m.memory for m in found[uid]])))
        for uid in sorted(found)
    )


def _tiers(reports: Sequence[Report]) -> dict[Tier, Amounts]:
    cpu: dict[Tier, list[Series]] = defaultdict(list)
    memory: dict[Tier, list[Series]] = defaultdict(list)
    for report in reports:
        for tier in {measured.pod.tier for measured in report.pods}:
            pods = [measured for measured in report.pods if measured.pod.tier == tier]
            cpu[tier].append(_together([measured.cpu for measured in pods]))
            memory[tier].append(_together([measured.memory for measured in pods]))
    return {tier: Amounts(merge(cpu[tier]), merge(memory[tier])) for tier in sorted(cpu)}


def _together(series: Sequence[Series]) -> Series:
    """Pods side by side in one report: values add up; the longest of them says how many samples there are."""
    counted = [one for one in series if one.samples]
    if not counted:
        return _VOID
    sums = (sum(values) for values in zip(*counted, strict=True))
    return Series(*sums)._replace(samples=max(one.samples for one in counted))
