"""Fast validation: finds the reports of a batch that need no detailed check, which are nearly all.

`validation.judge` is the readable reference and alone returns what is wrong with a report. This module checks whole
columns with NumPy and returns only whether a report is sound. A sound report is one that `judge` accepts in form,
ratios and amounts; a property test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.columns import NO_LIMIT, Asides, HistoryColumns, table_of
from slackwater.ingestion.domain.reports import Report
from slackwater.ingestion.domain.validation import (
    ABSURD_WINDOW_SECONDS,
    detail_texts,
    refused_apps,
    refused_failures,
)
from slackwater.model.bounds import (
    MOST_COUNT,
    MOST_CPU_MILLI,
    MOST_MEMORY_BYTES,
    MOST_NAME,
    MOST_PRIORITY,
    MOST_RATIO,
    MOST_SAMPLES,
    is_line,
)
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources


class Descriptions:
    """Caches the pods that passed the check in each node's last report, so that equal descriptions are not checked
    again. Results do not depend on the cache.
    """

    def __init__(self) -> None:
        self._last: dict[str, Sequence[Pod]] = {}

    def in_order(self, node: str, pods: Sequence[Pod]) -> bool:
        """Returns whether identities, texts, times and claims of the pods are valid."""
        if self._last.get(node) == pods:
            return True
        fine = _named(pods) and all(map(_claims, pods))
        if fine:
            self._last[node] = pods
        return fine


def valid_reports(history: HistoryColumns, bounds: Sequence[Resources], descriptions: Descriptions) -> list[bool]:
    """Returns for each report whether it is sound. `judge` must check the reports that are not.

    `bounds` are those of each report's node. Raises OverflowError for a number that no column can hold.
    """
    if not history.rows:
        return []
    return [
        in_order
        and _is_head_in_order(row.report)
        and descriptions.in_order(row.report.node, pods)
        and (not row.report.host_apps or refused_apps(row.report, bound) is None)
        and (not row.report.failed or refused_failures(row.report) is None)
        for row, in_order, pods, bound in zip(
            history.rows, _columns_in_order(history, bounds), history.described(), bounds, strict=True
        )
    ]


def _columns_in_order(history: HistoryColumns, bounds: Sequence[Resources]) -> list[bool]:
    """Returns for each report whether all series are ordered and within the node's bounds, and `asides` within
    theirs.
    """
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
    fine[pods.report[~_asides_in_order(pods.asides)]] = False
    in_order: list[bool] = fine.tolist()
    return in_order


def _asides_in_order(asides: Asides | None) -> NDArray[np.bool_]:
    assert asides is not None  # noqa: S101 - columns built from reports have asides
    limit = asides.cpu_limit
    fine: NDArray[np.bool_] = (limit == NO_LIMIT) | ((limit >= 0) & (limit <= MOST_CPU_MILLI))
    for share in (asides.throttled, asides.cpu_pressure):
        fine &= np.isnan(share) | ((share >= 0) & (share <= MOST_RATIO))
    return fine


def _rows_in_order(table: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.bool_]:
    avg, highest, last, samples = table[:, 0], table[:, 5], table[:, 6], table[:, 7]
    rising = (table[:, 1:5] <= table[:, 2:6]).all(axis=1) & (avg <= highest) & (last <= highest)
    within = (table.min(axis=1) >= 0) & (table[:, :7].max(axis=1) <= limit) & (samples <= MOST_SAMPLES)
    in_order: NDArray[np.bool_] = within & (rising | (samples == 0))
    return in_order


def _is_head_in_order(report: Report) -> bool:
    """Checks identity, window length and pressure ratios; NaN fails every bound."""
    texts = (report.node, report.boot_epoch)
    return (
        all(text and is_line(text) for text in texts)
        and (report.system_cpu is None) == (report.system_memory is None)
        and report.sampled_at.tzinfo is not None
        and 1 <= report.sequence <= MOST_COUNT
        and 0 < report.window_seconds <= ABSURD_WINDOW_SECONDS
        and all(value is None or 0 <= value <= MOST_RATIO for value in report.pressures)
    )


def _named(pods: Sequence[Pod]) -> bool:
    """Checks identities, texts and times."""
    texts = [""]
    uids = set()
    for pod in pods:
        texts += (pod.uid, pod.name, pod.namespace, pod.workload)
        if pod.labels:
            texts += chain.from_iterable(pod.labels.items())
        if pod.status is not None or pod.rules is not None:
            texts += detail_texts(pod)
        if pod.started_at.tzinfo is None:
            return False
        uids.add(pod.uid)
    return (
        "".join(texts).isprintable() and max(map(len, texts)) <= MOST_NAME and len(uids) == len(pods) and "" not in uids
    )


def _claims(pod: Pod) -> bool:
    return (
        0 <= pod.request.cpu_milli <= MOST_CPU_MILLI
        and 0 <= pod.request.memory_bytes <= MOST_MEMORY_BYTES
        and -MOST_PRIORITY <= pod.priority <= MOST_PRIORITY
        and (pod.status is None or 0 <= pod.status.restarts <= MOST_COUNT)
    )
