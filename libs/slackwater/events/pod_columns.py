"""The pods of a report by columns: for who reads thousands of reports, and of each only the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import overload

import numpy as np
from numpy.typing import NDArray

from slackwater.events.measures import PodUsage
from slackwater.model.pods import Pod

values_of = attrgetter("avg", "p50", "p90", "p95", "p99", "max", "last", "count")
"""The fields of a Distribution in their order."""
VALUES = 8


@dataclass(frozen=True, slots=True, eq=False)
class PodsByColumns(Sequence[PodUsage]):
    """A place in each column for each pod. `cpu` (milli-cores) and `memory` (bytes) have the fields of Distribution in
    their order (shape n x 8). As a sequence it is the pods as they were sent, read once more: for the few that somebody
    wants to look at."""

    described: Sequence[Pod]
    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    cpu_limit_milli: Sequence[int | None]
    throttled_ratio: Sequence[float | None]
    cpu_some_avg: Sequence[float | None]
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
    """The same pods. Raises OverflowError for what is no 64-bit integer."""
    if type(pods) is PodsByColumns:
        return pods
    return PodsByColumns(
        described=[one.pod for one in pods],
        cpu=table_of([values_of(one.usage.cpu_milli) for one in pods]),
        memory=table_of([values_of(one.usage.memory_bytes) for one in pods]),
        cpu_limit_milli=[one.cpu_limit_milli for one in pods],
        throttled_ratio=[one.throttled_ratio for one in pods],
        cpu_some_avg=[one.pressure.cpu_some_avg for one in pods],
        as_sent=lambda: pods,
    )


def table_of(rows: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Shape n x 8. Raises OverflowError for what is no 64-bit integer."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=VALUES * len(rows)).reshape(-1, VALUES)
