"""Reports by columns: what comes by the thousand is checked, stored and merged so, and not pod by pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod, Series
from slackwater.model.pods import Pod

Ints = NDArray[np.int64]
FIELDS = len(Series._fields)


Extras = tuple[int | None, float | None, float | None]
"""Of a pod in a report: cpu_limit_milli, throttled_ratio, cpu_pressure."""


@dataclass(frozen=True, slots=True, eq=False)
class PodColumns:
    """The pods of many reports, a row for each pod in each report: `report` is the place of the report in its list,
    `pod` that of the description in `described`; `cpu` and `memory` have the columns of Series (shape n x 8). Where
    they come from reports and not from history, reports are in order and `extras` has a row for each."""

    report: Ints
    pod: Ints
    cpu: Ints
    memory: Ints
    described: Sequence[Pod]
    extras: Sequence[Extras] = ()


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Accepted reports without their pods, and these as columns."""

    rows: Sequence[HistoryRow]
    pods: PodColumns

    def only(self, rows: Mapping[int, HistoryRow]) -> History:
        """Some of the reports: by their places here, as they are to be from now on."""
        if len(rows) == len(self.rows):
            return History([rows[place] for place in range(len(rows))], self.pods)
        kept = np.full(len(self.rows), -1, dtype=np.int64)
        kept[sorted(rows)] = np.arange(len(rows))
        pods, inside = self.pods, kept[self.pods.report] >= 0
        return History(
            [rows[place] for place in sorted(rows)],
            PodColumns(
                report=kept[pods.report[inside]],
                pod=pods.pod[inside],
                cpu=pods.cpu[inside],
                memory=pods.memory[inside],
                described=pods.described,
                extras=list(compress(pods.extras, inside)),
            ),
        )

    def described(self) -> list[Sequence[Pod]]:
        """The pods of each report; reports must be in order."""
        pods = [self.pods.described[place] for place in self.pods.pod.tolist()]
        ends = np.cumsum(np.bincount(self.pods.report, minlength=len(self.rows))).tolist()
        return [pods[start:end] for start, end in pairwise([0, *ends])]


def columns_of(rows: Sequence[HistoryRow]) -> History:
    """The same reports by columns. Raises OverflowError for what is no 64-bit integer."""
    pods = [(number, measured) for number, row in enumerate(rows) for measured in row.report.pods]
    return History(
        [replace(row, report=replace(row.report, pods=())) for row in rows],
        PodColumns(
            report=np.array([number for number, _ in pods], dtype=np.int64),
            pod=np.arange(len(pods)),
            cpu=table_of([measured.cpu for _, measured in pods]),
            memory=table_of([measured.memory for _, measured in pods]),
            described=[measured.pod for _, measured in pods],
            extras=[(one.cpu_limit_milli, one.throttled_ratio, one.cpu_pressure) for _, one in pods],
        ),
    )


def rows_of(history: History) -> list[HistoryRow]:
    """And back; reports must be in order."""
    pods = history.pods
    measured = [
        MeasuredPod(pods.described[place], Series(*cpu), Series(*memory), *extras)
        for place, cpu, memory, extras in zip(
            pods.pod.tolist(), pods.cpu.tolist(), pods.memory.tolist(), pods.extras, strict=True
        )
    ]
    ends = np.cumsum(np.bincount(pods.report, minlength=len(history.rows))).tolist()
    return [
        replace(row, report=replace(row.report, pods=tuple(measured[start:end])))
        for row, (start, end) in zip(history.rows, pairwise([0, *ends]), strict=True)
    ]


def table_of(series: Sequence[Series]) -> Ints:
    """Shape n x 8. Raises OverflowError for what is no 64-bit integer."""
    return np.fromiter(chain.from_iterable(series), dtype=np.int64, count=FIELDS * len(series)).reshape(-1, FIELDS)
