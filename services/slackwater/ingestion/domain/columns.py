"""Reports in columnar form. Batches of thousands of pods are checked, stored and merged by column, not pod by pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import inf, isnan, nan

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod, UsageSeries
from slackwater.model.pods import Pod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FIELDS = len(UsageSeries._fields)

NO_LIMIT = -1
"""Stands for None in a column of limits; measured and configured limits are never negative."""


@dataclass(frozen=True, slots=True, eq=False)
class Asides:
    """Values of a pod in a report besides its usage, one row per pod: the limit in milli-cores (NO_LIMIT: none), and
    the ratios of time in which it was throttled and in which it waited for CPU (NaN: unknown).
    """

    cpu_limit: Ints
    throttled: Floats
    cpu_pressure: Floats

    def __getitem__(self, rows: NDArray[np.bool_]) -> Asides:
        return Asides(self.cpu_limit[rows], self.throttled[rows], self.cpu_pressure[rows])


@dataclass(frozen=True, slots=True, eq=False)
class ReportPodColumns:
    """The pods of many reports, one row for each pod in each report.

    `report` is the index of the report in its list, `pod` the index of the description in `described`; `cpu` and
    `memory` have the columns of Series (shape n x 8). Columns built from reports, not from history, have their reports
    in order and have `asides`.
    """

    report: Ints
    pod: Ints
    cpu: Ints
    memory: Ints
    described: Sequence[Pod]
    asides: Asides | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HistoryColumns:
    """Accepted reports without their pods, and the pods as columns."""

    rows: Sequence[HistoryRow]
    pods: ReportPodColumns

    def only(self, rows: Mapping[int, HistoryRow]) -> HistoryColumns:
        """Returns the history of some reports: by their index here, the row that replaces each."""
        if len(rows) == len(self.rows):
            return HistoryColumns([rows[place] for place in range(len(rows))], self.pods)
        kept = np.full(len(self.rows), -1, dtype=np.int64)
        kept[sorted(rows)] = np.arange(len(rows))
        pods, inside = self.pods, kept[self.pods.report] >= 0
        return HistoryColumns(
            [rows[place] for place in sorted(rows)],
            ReportPodColumns(
                report=kept[pods.report[inside]],
                pod=pods.pod[inside],
                cpu=pods.cpu[inside],
                memory=pods.memory[inside],
                described=pods.described,
                asides=None if pods.asides is None else pods.asides[inside],
            ),
        )

    def described(self) -> list[Sequence[Pod]]:
        """Returns the pods of each report. Reports must be in order."""
        pods = [self.pods.described[place] for place in self.pods.pod.tolist()]
        return [pods[start:end] for start, end in self.spans()]

    def spans(self) -> list[tuple[int, int]]:
        """Returns the rows of each report as (start, end), end excluded. Reports must be in order."""
        ends = np.cumsum(np.bincount(self.pods.report, minlength=len(self.rows))).tolist()
        return list(pairwise([0, *ends]))


def columns_of(rows: Sequence[HistoryRow]) -> HistoryColumns:
    """Converts reports to columns. Raises OverflowError for a value that is not a 64-bit integer."""
    pods = [(number, measured) for number, row in enumerate(rows) for measured in row.report.pods]
    return HistoryColumns(
        [replace(row, report=replace(row.report, pods=())) for row in rows],
        ReportPodColumns(
            report=np.array([number for number, _ in pods], dtype=np.int64),
            pod=np.arange(len(pods)),
            cpu=table_of([measured.cpu for _, measured in pods]),
            memory=table_of([measured.memory for _, measured in pods]),
            described=[measured.pod for _, measured in pods],
            asides=asides_of(
                [measured.cpu_limit_milli for _, measured in pods],
                [measured.throttled_ratio for _, measured in pods],
                [measured.cpu_pressure for _, measured in pods],
            ),
        ),
    )


def rows_of(history: HistoryColumns) -> list[HistoryRow]:
    """Converts columns back to reports. Requires columns that were built from reports."""
    pods = history.pods
    assert pods.asides is not None  # noqa: S101 - columns built from reports have asides
    limits = (None if limit == NO_LIMIT else limit for limit in pods.asides.cpu_limit.tolist())
    throttled, pressure = (map(_share, column.tolist()) for column in (pods.asides.throttled, pods.asides.cpu_pressure))
    measured = [
        MeasuredPod(pods.described[place], UsageSeries(*cpu), UsageSeries(*memory), *asides)
        for place, cpu, memory, *asides in zip(
            pods.pod.tolist(), pods.cpu.tolist(), pods.memory.tolist(), limits, throttled, pressure, strict=True
        )
    ]
    return [
        replace(row, report=replace(row.report, pods=tuple(measured[start:end])))
        for row, (start, end) in zip(history.rows, history.spans(), strict=True)
    ]


def asides_of(
    limits: Sequence[int | None], throttled: Sequence[float | None], cpu_pressure: Sequence[float | None]
) -> Asides:
    """Returns the values as columns. A limit equal to NO_LIMIT and a ratio of NaN become invalid values, so that
    validation refuses them and they are not read as absent. Raises OverflowError for a value that is not a 64-bit
    integer.
    """
    plain = [NO_LIMIT if limit is None else limit if limit != NO_LIMIT else NO_LIMIT - 1 for limit in limits]
    return Asides(np.array(plain, dtype=np.int64), _shares(throttled), _shares(cpu_pressure))


def _shares(values: Sequence[float | None]) -> Floats:
    return np.array([nan if value is None else value if value == value else inf for value in values], dtype=np.float64)


def _share(value: float) -> float | None:
    return None if isnan(value) else value


def table_of(series: Sequence[UsageSeries]) -> Ints:
    """Returns a table of shape n x 8. Raises OverflowError for a value that is not a 64-bit integer."""
    return np.fromiter(chain.from_iterable(series), dtype=np.int64, count=FIELDS * len(series)).reshape(-1, FIELDS)
