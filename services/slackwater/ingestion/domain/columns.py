"""Reports by columns: what comes by the thousand is checked, stored and merged so, and not pod by pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import inf, isnan, nan

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod, Series
from slackwater.model.pods import Pod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FIELDS = len(Series._fields)

NO_LIMIT = -1
"""Stands for None in a column of limits; what is measured or set is never below zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Asides:
    """What is known of a pod in a report beside its usage, a row for each: the limit in milli-cores (NO_LIMIT: none),
    the shares of time in which it was throttled and in which it waited for CPU (NaN: unknown)."""

    cpu_limit: Ints
    throttled: Floats
    cpu_pressure: Floats

    def __getitem__(self, rows: NDArray[np.bool_]) -> Asides:
        return Asides(self.cpu_limit[rows], self.throttled[rows], self.cpu_pressure[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PodColumns:
    """The pods of many reports, a row for each pod in each report: `report` is the place of the report in its list,
    `pod` that of the description in `described`; `cpu` and `memory` have the columns of Series (shape n x 8). Where
    they come from reports and not from history, reports are in order and `asides` are there."""

    report: Ints
    pod: Ints
    cpu: Ints
    memory: Ints
    described: Sequence[Pod]
    asides: Asides | None = None


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
                asides=None if pods.asides is None else pods.asides[inside],
            ),
        )

    def described(self) -> list[Sequence[Pod]]:
        """The pods of each report; reports must be in order."""
        pods = [self.pods.described[place] for place in self.pods.pod.tolist()]
        return [pods[start:end] for start, end in self.spans()]

    def spans(self) -> list[tuple[int, int]]:
        """The rows of each report, from the first to the one after the last; reports must be in order."""
        ends = np.cumsum(np.bincount(self.pods.report, minlength=len(self.rows))).tolist()
        return list(pairwise([0, *ends]))


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
            asides=asides_of(
                [one.cpu_limit_milli for _, one in pods],
                [one.throttled_ratio for _, one in pods],
                [one.cpu_pressure for _, one in pods],
            ),
        ),
    )


def rows_of(history: History) -> list[HistoryRow]:
    """And back, where they come from reports."""
    pods = history.pods
    assert pods.asides is not None  # noqa: S101 - they come from reports
    limits = (None if one == NO_LIMIT else one for one in pods.asides.cpu_limit.tolist())
    throttled, pressure = (map(_share, column.tolist()) for column in (pods.asides.throttled, pods.asides.cpu_pressure))
    measured = [
        MeasuredPod(pods.described[place], Series(*cpu), Series(*memory), *asides)
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
    """As columns. A limit of NO_LIMIT becomes one that nobody takes for sound, and so does a share that is no number:
    neither may be mistaken for what is not there. Raises OverflowError for what is no 64-bit integer."""
    plain = [NO_LIMIT if one is None else one if one != NO_LIMIT else NO_LIMIT - 1 for one in limits]
    return Asides(np.array(plain, dtype=np.int64), _shares(throttled), _shares(cpu_pressure))


def _shares(values: Sequence[float | None]) -> Floats:
    return np.array([nan if one is None else one if one == one else inf for one in values], dtype=np.float64)


def _share(value: float) -> float | None:
    return None if isnan(value) else value


def table_of(series: Sequence[Series]) -> Ints:
    """Shape n x 8. Raises OverflowError for what is no 64-bit integer."""
    return np.fromiter(chain.from_iterable(series), dtype=np.int64, count=FIELDS * len(series)).reshape(-1, FIELDS)
