"""The pods of a report as columns, for consumers that process thousands of reports and need only the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import overload

import numpy as np
from numpy.typing import NDArray

from slackwater.events import report_columns
from slackwater.events.joined_pods import JoinedPods
from slackwater.events.measures import PodUsage
from slackwater.events.report_columns import DistributionColumns, amounts, numbers_of, ratios, spread
from slackwater.model.pods import Pod

_VALUES = len(report_columns.VALUES)
_LAST, _COUNT = report_columns.VALUES.index("last"), report_columns.VALUES.index("count")


@dataclass(frozen=True, slots=True, eq=False)
class PodsByColumns(Sequence[PodUsage]):
    """Columns with one row per pod. `cpu` (milli-cores) and `memory` (bytes) hold the fields of Distribution in order
    (shape n x 8). Access as a sequence decodes the pods of the report again, so it is meant for a few pods."""

    described: Sequence[Pod]
    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    cpu_limit_milli: Sequence[int | None]
    throttled_ratio: Sequence[float | None]
    cpu_some_avg: Sequence[float | None]
    memory_high_bytes: Sequence[int | None]
    original_memory_high_bytes: Sequence[int | None]
    reclaimable_bytes: Sequence[int | None]
    as_sent: Callable[[], Sequence[PodUsage]]

    def __len__(self) -> int:
        return len(self.described)

    @overload
    def __getitem__(self, place: int) -> PodUsage: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PodUsage]: ...
    def __getitem__(self, place: int | slice) -> PodUsage | Sequence[PodUsage]:
        return self.as_sent()[place]

    def __iter__(self) -> Iterator[PodUsage]:
        return iter(self.as_sent())


def by_columns(pods: Sequence[PodUsage]) -> PodsByColumns:
    """The pods as columns. Raises OverflowError for a value that does not fit into 64 bits."""
    if type(pods) is PodsByColumns:
        return pods
    if type(pods) is JoinedPods and not pods.is_partial:
        return _of_joined(pods)
    return PodsByColumns(
        described=[pod.pod for pod in pods],
        cpu=table_of([numbers_of(pod.usage.cpu_milli) for pod in pods]),
        memory=table_of([numbers_of(pod.usage.memory_bytes) for pod in pods]),
        cpu_limit_milli=[pod.cpu_limit_milli for pod in pods],
        throttled_ratio=[pod.throttled_ratio for pod in pods],
        cpu_some_avg=[pod.pressure.cpu_some_avg for pod in pods],
        memory_high_bytes=[pod.memory_high_bytes for pod in pods],
        original_memory_high_bytes=[pod.original_memory_high_bytes for pod in pods],
        reclaimable_bytes=[pod.reclaimable_bytes for pod in pods],
        as_sent=lambda: pods,
    )


def _of_joined(pods: JoinedPods) -> PodsByColumns:
    columns, count = pods.columns, len(pods)
    cpu, memory = _tables((columns.cpu_milli, columns.memory_bytes), count)
    return PodsByColumns(
        described=pods.described,
        cpu=cpu,
        memory=memory,
        cpu_limit_milli=amounts(columns.cpu_limit_milli, count),
        throttled_ratio=ratios(columns.throttled_ratio, count),
        cpu_some_avg=ratios(columns.cpu_some_avg, count),
        memory_high_bytes=amounts(columns.memory_high_bytes, count),
        original_memory_high_bytes=amounts(columns.original_memory_high_bytes, count),
        reclaimable_bytes=amounts(columns.reclaimable_bytes, count),
        as_sent=pods.built,
    )


def _tables(distributions: Sequence[DistributionColumns], count: int) -> Iterator[NDArray[np.int64]]:
    """Yields distributions as arrays of shape n x 8."""
    columns = [spread(column or (0,), count) for numbers in distributions for column in numbers_of(numbers)]
    if not distributions[-1].count:
        columns[-1] = columns[_COUNT]
    numbers = np.fromiter(chain.from_iterable(columns), np.int64, len(columns) * count)
    tables = numbers.reshape(len(distributions), _VALUES, count)
    tables[:, _LAST] += tables[:, 0]
    np.cumsum(tables[:, :_LAST], axis=1, out=tables[:, :_LAST])
    for table, sent in zip(tables, distributions, strict=True):
        if sent.unit > 1:
            table[:_COUNT] *= sent.unit
        yield table.T


def table_of(rows: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """The rows as an array of shape n x 8. Raises OverflowError for a value that does not fit into 64 bits."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=_VALUES * len(rows)).reshape(-1, _VALUES)
