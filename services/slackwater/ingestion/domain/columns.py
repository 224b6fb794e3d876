"""History by columns: what `windows_at_once` computes with, many reports and pods at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import HistoryRow, Series
from slackwater.model.pods import Pod

Ints = NDArray[np.int64]
FIELDS = len(Series._fields)


@dataclass(frozen=True, slots=True, eq=False)
class PodColumns:
    """The pods of many reports, a row for each pod in each report: `report` is the place of the report in its list,
    `pod` that of the description in `described`; `cpu` and `memory` have the columns of Series (shape n x 8)."""

    report: Ints
    pod: Ints
    cpu: Ints
    memory: Ints
    described: Sequence[Pod]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Accepted reports without their pods, and these as columns."""

    rows: Sequence[HistoryRow]
    pods: PodColumns


def columns_of(rows: Sequence[HistoryRow]) -> History:
    """The same reports by columns; a pod is described as the last of them does."""
    described = {measured.pod.uid: measured.pod for row in rows for measured in row.report.pods}
    place = {uid: number for number, uid in enumerate(described)}
    pods = [(number, measured) for number, row in enumerate(rows) for measured in row.report.pods]
    return History(
        [replace(row, report=replace(row.report, pods=())) for row in rows],
        PodColumns(
            report=np.array([number for number, _ in pods], dtype=np.int64),
            pod=np.array([place[measured.pod.uid] for _, measured in pods], dtype=np.int64),
            cpu=table_of([measured.cpu for _, measured in pods]),
            memory=table_of([measured.memory for _, measured in pods]),
            described=list(described.values()),
        ),
    )


def table_of(series: Sequence[Series]) -> Ints:
    """Shape n x 8. Raises OverflowError for what is no 64-bit integer."""
    return np.array(series, dtype=np.int64).reshape(len(series), FIELDS)
