"""The reports of a batch in which nothing is wrong, found together: nearly all of them.

`validation.judge` is the readable reference and alone says what is wrong with a report and why. Here whole columns are
looked at with NumPy, and the answer is only "sound" or "ask": what is called sound here is what `judge` finds nothing
wrong with in form, ratios and amounts (a property test compares the two).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.columns import Extras, History, table_of
from slackwater.ingestion.domain.reports import Report
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
from slackwater.model.pods import Pod

_LARGEST_PRIORITY = 2**31 - 1


def sound(history: History, bounds: Sequence[Bounds]) -> list[bool]:
    """For each report, with the bounds of its node: True when it is sound, False when `judge` has to look.

    Raises OverflowError for a number that no column holds.
    """
    if not history.rows:
        return []
    ends = np.cumsum(np.bincount(history.pods.report, minlength=len(history.rows))).tolist()
    return [
        in_order and _named(row.report, pods) and _shares(row.report, extras) and _claims(pods, extras)
        for row, in_order, pods, extras in zip(
            history.rows,
            _usage_in_order(history, bounds),
            history.described(),
            (history.pods.extras[start:end] for start, end in pairwise([0, *ends])),
            strict=True,
        )
    ]


def _usage_in_order(history: History, bounds: Sequence[Bounds]) -> list[bool]:
    """Whether every series of a report is ordered and within the bounds of its node."""
    cpu_limit = np.array([bound.cpu_milli for bound in bounds], dtype=np.int64)
    memory_limit = np.array([bound.memory_bytes for bound in bounds], dtype=np.int64)
    pods, own = history.pods, [row.report for row in history.rows]
    everywhere = np.arange(len(own))
    with_system = [place for place, report in enumerate(own) if report.system_cpu and report.system_memory]
    system = np.array(with_system, dtype=np.int64)
    parts = (
        (table_of([report.cpu for report in own]), everywhere, cpu_limit),
        (table_of([report.memory for report in own]), everywhere, memory_limit),
        (table_of([own[place].system_cpu or own[place].cpu for place in with_system]), system, cpu_limit),
        (table_of([own[place].system_memory or own[place].memory for place in with_system]), system, memory_limit),
        (pods.cpu, pods.report, cpu_limit),
        (pods.memory, pods.report, memory_limit),
    )
    fine = np.ones(len(own), dtype=np.bool_)
    for table, report, limit in parts:
        fine[report[~_rows_in_order(table, limit[report])]] = False
    found: list[bool] = fine.tolist()
    return found


def _rows_in_order(table: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.bool_]:
    avg, highest, last, samples = table[:, 0], table[:, 5], table[:, 6], table[:, 7]
    rising = (table[:, 1:5] <= table[:, 2:6]).all(axis=1) & (avg <= highest) & (last <= highest)
    within = (table.min(axis=1) >= 0) & (table[:, :7].max(axis=1) <= limit) & (samples <= ABSURD_COUNT)
    found: NDArray[np.bool_] = within & (rising | (samples == 0))
    return found


def _named(report: Report, pods: Sequence[Pod]) -> bool:
    """Identity, texts and moments."""
    texts = [report.node, report.boot_epoch]
    uids = set()
    for pod in pods:
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
        and len(uids) == len(pods)
        and "" not in uids
    )


def _shares(report: Report, extras: Sequence[Extras]) -> bool:
    """The window and every share of time; NaN is within no bounds."""
    if not 0 < report.window_seconds <= ABSURD_WINDOW_SECONDS:
        return False
    if not all(value is None or 0 <= value <= ABSURD_RATIO for value in report.pressures):
        return False
    for _, throttled, pressure in extras:
        if throttled is not None and not 0 <= throttled <= ABSURD_RATIO:
            return False
        if pressure is not None and not 0 <= pressure <= ABSURD_RATIO:
            return False
    return True


def _claims(pods: Sequence[Pod], extras: Sequence[Extras]) -> bool:
    for pod, (limit, _, _) in zip(pods, extras, strict=True):
        if not (
            0 <= pod.request.cpu_milli <= ABSURD_CPU_MILLI
            and 0 <= pod.request.memory_bytes <= ABSURD_MEMORY_BYTES
            and (limit is None or 0 <= limit <= ABSURD_CPU_MILLI)
            and -_LARGEST_PRIORITY <= pod.priority <= _LARGEST_PRIORITY
        ):
            return False
    return True
