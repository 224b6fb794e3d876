"""Groups with counts and limits, and the groups of each waiting job, as arrays.

Every check of arbitration is the same comparison, count >= limit of a group. A job is a row of group numbers, one
column per check; a column that does not apply has the open group. Admitting a job adds one to each of its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.podmigration.limits import HoldFilter, JobHold
from slackwater.podmigration.snapshot import WaitingJob

OPEN = 0
"""The group that holds nothing."""
_UNLIMITED = 2**62
_CHUNK = 1024
"""Jobs that are converted to lists at a time: a round visits few of many."""
Ints = NDArray[np.int64]


class JobGroups:
    """Columns are in the order of the filters. `own` marks the jobs that a column counts already: their own pod."""

    def __init__(self, jobs: Sequence[WaitingJob]) -> None:
        self.jobs = jobs
        self._filters: list[HoldFilter] = [HoldFilter.SELECT]
        self._scopes: list[str] = [""]
        self._counts: list[int] = [0]
        self._limits: list[int] = [_UNLIMITED]
        self._columns: list[Ints] = [np.zeros(len(jobs), dtype=np.int64)]
        self._own: tuple[int, Ints] = (0, np.zeros(len(jobs), dtype=np.int64))

    def group(self, name: HoldFilter, scope: str, count: int, limit: int) -> int:
        """Returns the number of a new group."""
        self._filters.append(name)
        self._scopes.append(scope)
        self._counts.append(count)
        self._limits.append(limit)
        return len(self._counts) - 1

    def add(self, keys: Sequence[str], group_of: Callable[[str], int]) -> None:
        """Adds the column of a check: the group of each job's key."""
        groups = {key: group_of(key) for key in dict.fromkeys(keys)}
        self._columns.append(np.fromiter(map(groups.__getitem__, keys), np.int64, len(keys)))

    def count_own(self, own: Sequence[bool]) -> None:
        """Marks the jobs whose own pod the last column counts already."""
        self._own = (len(self._columns) - 1, np.array(own, dtype=np.int64))

    def admit_in_order(self, count: int) -> list[int]:
        """Returns the places of the first `count` jobs that no filter holds, and counts them."""
        matrix, own = self._matrix(), self._own[1]
        free = np.flatnonzero(~self._held(matrix).any(axis=1))
        admitted: list[int] = []
        for first in range(0, len(free), _CHUNK):
            places = free[first : first + _CHUNK]
            for place, row, less in zip(places.tolist(), matrix[places].tolist(), own[places].tolist(), strict=True):
                if len(admitted) >= count:
                    return admitted
                if self._admit(row, less):
                    admitted.append(place)
        return admitted

    def _admit(self, row: list[int], less: int) -> bool:
        counts, limits, own_column = self._counts, self._limits, self._own[0]
        for column, group in enumerate(row):
            if counts[group] - (less if column == own_column else 0) >= limits[group]:
                return False
        for column, group in enumerate(row):
            counts[group] += 1 - (less if column == own_column else 0)
        return True

    def holds(self, admitted: set[int], select: JobHold) -> dict[str, JobHold]:
        """Returns the first filter that holds each job that was not admitted; `select` where none does."""
        matrix, (own_column, own) = self._matrix(), self._own
        held = self._held(matrix)
        first = held.argmax(axis=1)
        rows = np.arange(len(self.jobs))
        groups = np.where(held.any(axis=1), matrix[rows, first], OPEN).tolist()
        owns = np.where(first == own_column, own, 0).tolist()
        found = {}
        for place, (job, group, less) in enumerate(zip(self.jobs, groups, owns, strict=True)):
            if place in admitted:
                continue
            hold = select
            if group != OPEN:
                count = self._counts[group] - less
                hold = JobHold(self._filters[group], self._scopes[group], count, self._limits[group], select.since_s)
            found[job.id] = hold if job.hold is None else hold.continued(job.hold)
        return found

    def _matrix(self) -> Ints:
        return np.column_stack(self._columns)

    def _held(self, matrix: Ints) -> NDArray[np.bool_]:
        own_column, own = self._own
        counts = np.array(self._counts, dtype=np.int64)[matrix]
        counts[:, own_column] -= own
        held: NDArray[np.bool_] = counts >= np.array(self._limits, dtype=np.int64)[matrix]
        return held
