"""The reports of a batch in which nothing is wrong, found together: nearly all of them.

`validation.judge` is the readable reference and alone says what is wrong with a report and why. Here whole columns are
looked at with NumPy, and the answer is only "sound" or "ask": what is called sound here is what `judge` finds nothing
wrong with in form, ratios and amounts (a property test compares the two).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import Report, Series
from slackwater.ingestion.domain.validation import (
    ABSURD_COUNT,
    ABSURD_CPU_MILLI,
    ABSURD_MEMORY_BYTES,
    ABSURD_RATIO,
    ABSURD_SEQUENCE,
    ABSURD_WINDOW_SECONDS,
    LONGEST_NAME,
    Bounds,
)

_LARGEST_PRIORITY = 2**31 - 1
_FIELDS = len(Series._fields)


def sound(reports: Sequence[Report], bounds: Sequence[Bounds]) -> list[bool]:
    """For each report, with the bounds of its node: True when it is sound, False when `judge` has to look."""
    try:
        usage = _usage_in_order(reports, bounds)
    except OverflowError:  # a number that no column holds
        return [False] * len(reports)
    return [
        in_order and _named(report) and _shares(report) and _claims(report)
        for report, in_order in zip(reports, usage, strict=True)
    ]


def _usage_in_order(reports: Sequence[Report], bounds: Sequence[Bounds]) -> list[bool]:
    """Whether every series of a report is ordered and within the bounds of its node."""
    counts = np.array([2 * (1 + (report.system_cpu is not None) + len(report.pods)) for report in reports])
    if not len(counts):
        return []
    total = int(counts.sum())
    flat = chain.from_iterable(chain.from_iterable(map(_series, reports)))
    table = np.fromiter(flat, dtype=np.int64, count=total * _FIELDS).reshape(total, _FIELDS)
    limits = np.array([(bound.cpu_milli, bound.memory_bytes) for bound in bounds], dtype=np.int64)
    limit = np.repeat(limits, counts // 2, axis=0).reshape(total)  # CPU and memory take turns in the table
    fine = _rows_in_order(table, limit)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    found: list[bool] = np.logical_and.reduceat(fine, starts).tolist()
    return found


def _rows_in_order(table: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.bool_]:
    avg, highest, last, samples = table[:, 0], table[:, 5], table[:, 6], table[:, 7]
    rising = (table[:, 1:5] <= table[:, 2:6]).all(axis=1) & (avg <= highest) & (last <= highest)
    within = (table.min(axis=1) >= 0) & (table[:, :7].max(axis=1) <= limit) & (samples <= ABSURD_COUNT)
    found: NDArray[np.bool_] = within & (rising | (samples == 0))
    return found


def _series(report: Report) -> Iterator[Series]:
    yield report.cpu
    yield report.memory
    if report.system_cpu is not None:
        yield report.system_cpu
        yield report.system_memory or report.system_cpu
    for measured in report.pods:
        yield measured.cpu
        yield measured.memory


def _named(report: Report) -> bool:
    """Identity, texts and moments."""
    texts = [report.node, report.boot_epoch]
    uids = set()
    for measured in report.pods:
        pod = measured.pod
        texts += (pod.uid, pod.name, pod.namespace, pod.workload)
        if pod.labels:
            texts += chain.from_iterable(pod.labels.items())
        if pod.started_at.tzinfo is None:
            return False
        uids.add(pod.uid)
    return (
        bool(report.node and report.boot_epoch)
        and (report.system_cpu is None) == (report.system_memory is None)
        and "".join(texts).isprintable()
        and max(map(len, texts)) <= LONGEST_NAME
        and report.sampled_at.tzinfo is not None
        and 1 <= report.sequence <= ABSURD_SEQUENCE
        and len(uids) == len(report.pods)
        and "" not in uids
    )


def _shares(report: Report) -> bool:
    """The window and every share of time; NaN is within no bounds."""
    if not 0 < report.window_seconds <= ABSURD_WINDOW_SECONDS:
        return False
    if not all(value is None or 0 <= value <= ABSURD_RATIO for value in report.pressures):
        return False
    for measured in report.pods:
        throttled, pressure = measured.throttled_ratio, measured.cpu_pressure
        if throttled is not None and not 0 <= throttled <= ABSURD_RATIO:
            return False
        if pressure is not None and not 0 <= pressure <= ABSURD_RATIO:
            return False
    return True


def _claims(report: Report) -> bool:
    for measured in report.pods:
        pod, limit = measured.pod, measured.cpu_limit_milli
        if not (
            0 <= pod.request.cpu_milli <= ABSURD_CPU_MILLI
            and 0 <= pod.request.memory_bytes <= ABSURD_MEMORY_BYTES
            and (limit is None or 0 <= limit <= ABSURD_CPU_MILLI)
            and -_LARGEST_PRIORITY <= pod.priority <= _LARGEST_PRIORITY
        ):
            return False
    return True
