"""Closes the windows of many nodes in one columnar pass. 2,000 reports a second end 170 windows a second of 60 series.

`windowing.close_windows` is the readable reference; a property test requires equal windows. Every series of every
window is a group of rows, and groups of the same size are ranked together. The five points of each report are sorted
with their indices in the low bits, so that one sort of plain integers orders values and weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.columns import HistoryColumns, Ints, ReportPodColumns, table_of
from slackwater.ingestion.domain.reports import HistoryRow, Report, UsageSeries
from slackwater.ingestion.domain.windowing import (
    SHARES,
    Agent,
    Before,
    HostAppWindow,
    Merged,
    Phase,
    Window,
    WindowAmounts,
    aligned,
    apps_of,
    gaps_of,
    merge,
    number_of,
    start_of,
)
from slackwater.model.tiers import Tier

_PLACE_BITS = 11
_LARGEST = 2 ** (63 - _PLACE_BITS)
"""Smaller values leave room for an index. The reference handles larger values, and groups with more points."""
_POINTS = len(SHARES)
_TIERS = tuple(sorted(Tier))
_TIER = {tier: number for number, tier in enumerate(_TIERS)}


def close_windows_columnar(
    history: HistoryColumns, seconds: int, phase: Phase = aligned, before: Mapping[Agent, Before] | None = None
) -> list[Window]:
    """Returns all windows of this history by node and number; late reports are left out. See windowing.close_windows.

    A report may have 4,096 pods of a tier, with values as ingestion accepts them (below 2^51): their sums fit 64 bits.
    """
    grouped: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, row in enumerate(history.rows):
        if not row.late:
            node = row.report.node
            grouped[node, number_of(row.report.midpoint_at, seconds, phase(node))].append(place)
    keys = sorted(grouped)
    if not keys:
        return []
    gaps = gaps_of([row for row in history.rows if not row.late], seconds, phase, before or {})
    window_of = np.full(len(history.rows), -1, dtype=np.int64)
    for number, key in enumerate(keys):
        window_of[grouped[key]] = number
    usage = _node_usage(history.rows, window_of, len(keys))
    system = _system_usage(history.rows, window_of, len(keys))
    apps = _host_apps(history.rows, window_of)
    tiers = _tiers(history.pods, window_of, len(keys))
    pods = _pods(history.pods, window_of, len(keys))
    return [
        Window(
            node=node,
            number=number_of(start_of(number, seconds, phase(node)), seconds),
            start=start_of(number, seconds, phase(node)),
            seconds=seconds,
            usage=usage[place],
            system=system.get(place),
            tiers=tiers[place],
            pods=tuple((history.pods.described[pod], amounts) for pod, amounts in pods[place]),
            reports=len(grouped[node, number]),
            gaps=gaps[node, number],
            host_apps=apps.get(place, ()),
        )
        for place, (node, number) in enumerate(keys)
    ]


def _node_usage(rows: Sequence[HistoryRow], window_of: Ints, windows: int) -> list[WindowAmounts]:
    places = np.flatnonzero(window_of >= 0)
    reports = [rows[place].report for place in places.tolist()]
    cpu, memory = table_of([report.cpu for report in reports]), table_of([report.memory for report in reports])
    return _amounts(cpu, memory, window_of[places], windows)


def _system_usage(rows: Sequence[HistoryRow], window_of: Ints, windows: int) -> dict[int, WindowAmounts]:
    """Returns system usage by window, for windows in which some report has it."""
    cpu, memory, window = [], [], []
    for place in np.flatnonzero(window_of >= 0).tolist():
        report = rows[place].report
        if report.system_cpu and report.system_memory:
            cpu.append(report.system_cpu)
            memory.append(report.system_memory)
            window.append(int(window_of[place]))
    amounts = _amounts(table_of(cpu), table_of(memory), np.array(window, dtype=np.int64), windows)
    return {number: amounts[number] for number in set(window)}


def _host_apps(rows: Sequence[HistoryRow], window_of: Ints) -> dict[int, tuple[HostAppWindow, ...]]:
    """Returns host applications by window, for windows in which some report has one."""
    reports: dict[int, list[Report]] = defaultdict(list)
    for row, window in zip(rows, window_of.tolist(), strict=True):
        if row.report.host_apps and window >= 0:
            reports[window].append(row.report)
    return {window: apps_of(in_window) for window, in_window in reports.items()}


def _pods(pods: ReportPodColumns, window_of: Ints, windows: int) -> list[list[tuple[int, WindowAmounts]]]:
    """Returns the pods of each window by uid, as indices into `described`; the last of several descriptions counts."""
    last = {pod.uid: place for place, pod in enumerate(pods.described)}
    number_of_uid = {uid: number for number, uid in enumerate(sorted(last))}
    rank = np.array([number_of_uid[pod.uid] for pod in pods.described], dtype=np.int64)
    by_uid = np.array([last[uid] for uid in number_of_uid], dtype=np.int64)
    window = window_of[pods.report]
    inside = window >= 0
    together = window[inside] * len(by_uid) + rank[pods.pod[inside]]
    keys, group = np.unique(together, return_inverse=True)
    by_window: list[list[tuple[int, WindowAmounts]]] = [[] for _ in range(windows)]
    amounts = _amounts(pods.cpu[inside], pods.memory[inside], group, len(keys))
    for key, usage in zip(keys.tolist(), amounts, strict=True):
        number, place = divmod(key, len(by_uid))
        by_window[number].append((int(by_uid[place]), usage))
    return by_window


def _tiers(pods: ReportPodColumns, window_of: Ints, windows: int) -> list[dict[Tier, WindowAmounts]]:
    """Returns the usage of each tier for each window, in the order of the tiers' names."""
    tier_of = np.array([_TIER[pod.tier] for pod in pods.described], dtype=np.int64)
    by_window: list[dict[Tier, WindowAmounts]] = [{} for _ in range(windows)]
    inside = window_of[pods.report] >= 0
    if not inside.any():
        return by_window
    side_by_side, part = np.unique(pods.report[inside] * len(_TIERS) + tier_of[pods.pod[inside]], return_inverse=True)
    cpu, memory = _together(pods.cpu[inside], part), _together(pods.memory[inside], part)
    window, tier = window_of[side_by_side // len(_TIERS)], side_by_side % len(_TIERS)
    keys, group = np.unique(window * len(_TIERS) + tier, return_inverse=True)
    for key, usage in zip(keys.tolist(), _amounts(cpu, memory, group, len(keys)), strict=True):
        number, place = divmod(key, len(_TIERS))
        by_window[number][_TIERS[place]] = usage
    return by_window


def _together(table: Ints, part: NDArray[np.intp]) -> Ints:
    """Adds up the rows of each part. The sample count is that of the longest row; rows without samples are ignored."""
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    counted = np.where(table[:, 7:] > 0, table, 0)[order]
    sums = np.add.reduceat(counted, starts, axis=0)
    sums[:, 7] = np.maximum.reduceat(counted[:, 7], starts)
    return sums


def _amounts(cpu: Ints, memory: Ints, group: NDArray[np.intp] | Ints, groups: int) -> list[WindowAmounts]:
    both = merge_columnar(np.concatenate((cpu, memory)), np.concatenate((group, group + groups)), 2 * groups).tolist()
    return [
        WindowAmounts(Merged(*cpu_row), Merged(*memory_row))
        for cpu_row, memory_row in zip(both[:groups], both[groups:], strict=True)
    ]


def merge_columnar(table: Ints, group: NDArray[np.intp] | Ints, groups: int) -> Ints:
    """Merges rows of Series (n x 8) by group into avg, p90, p95, max and samples (groups x 5).

    A group without rows or samples is all zero. Reference: windowing.merge.
    """
    merged = np.zeros((groups, 5), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=groups)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]).tolist():
        which = np.flatnonzero(sizes == size)
        series = table[order[starts[which][:, None] + np.arange(size)]]
        merged[which] = _ranked(series) if _fits(series) else _one_by_one(series)
    return merged


def _fits(series: Ints) -> bool:
    """Returns whether indices fit below the values, and sums of value times samples fit 64 bits."""
    largest, samples = int(series[:, :, :7].max()), int(series[:, :, 7].max()) * series.shape[1]
    return (
        series.shape[1] * _POINTS <= 2**_PLACE_BITS
        and int(series.min()) >= 0
        and largest < _LARGEST
        and largest * samples < 2**61
    )


def _ranked(series: Ints) -> Ints:
    """groups x reports x 8 → groups x 5."""
    groups, reports, _ = series.shape
    samples = series[:, :, 7]
    total = samples.sum(axis=1)
    points = (series[:, :, 1:6].reshape(groups, -1) << _PLACE_BITS) | np.arange(reports * _POINTS)
    points.sort(axis=1)
    weights = (samples[:, :, None] * np.array(SHARES)).reshape(groups, -1)
    reached = np.take_along_axis(weights, points & (2**_PLACE_BITS - 1), axis=1).cumsum(axis=1)
    average = (2 * (series[:, :, 0] * samples).sum(axis=1) + total) // np.maximum(2 * total, 1)
    highest = np.where(samples > 0, series[:, :, 5], 0).max(axis=1)
    ranks = [_value_at(points, reached, percent * total) for percent in (90, 95)]
    merged = np.stack((average, *ranks, highest, total), axis=1)
    merged[total == 0] = 0
    return merged


def _value_at(points: Ints, reached: Ints, rank: Ints) -> Ints:
    """Returns the first value with at least `rank` of the weight at or below it."""
    first = np.argmax(reached >= rank[:, None], axis=1)
    value: Ints = points[np.arange(len(points)), first] >> _PLACE_BITS
    return value


def _one_by_one(series: Ints) -> Ints:
    merged = [merge([UsageSeries(*row) for row in group]) for group in series.tolist()]
    return np.array(
        [(series.avg, series.p90, series.p95, series.max, series.samples) for series in merged], dtype=np.int64
    )
