"""Class priors: the ratio of its limit that a workload of a class needs, as an optional substitute for unknown ones.

    share of a class = the `quantile` of (largest hour / limit) over its well-known workloads, at most 1
    stand-in         = share x limit, or the observed usage if larger; never above the limit

Until `at_least` workloads of a class are well known, its share is 1: the limit is used. Shares are computed when an
hour of the stream begins, so they depend only on what was folded by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.port import Floats, Members, Rows
from slackwater.peaks.profiles import HOUR, Profiles
from slackwater.peaks.tables import SeriesColumn, State, Table, named, part_of

_NOBODY = -1


class ClassPriors:
    """The class and limit of each workload, and the share of each class."""

    def __init__(self, quantile: float, at_least: int) -> None:
        self.quantile, self.at_least = quantile, at_least
        self.workloads = Table({"kind": SeriesColumn(np.int16, empty=_NOBODY), "limit": SeriesColumn(np.float64)})
        self.classes = Table({"share": SeriesColumn(np.float64, empty=1.0), "known": SeriesColumn(np.int32)})
        self.hour: int | None = None

    def fold(self, at_seconds: float, members: Members, limit: Floats) -> None:
        """Records each workload's class and limit; of several pods of a workload the largest limit."""
        rows = members.workload
        self.workloads.reach(rows)
        self.workloads["kind"][rows] = kinds_of(members)
        largest = self.workloads["limit"]
        largest[rows] = 0.0
        np.maximum.at(largest, rows, limit)

    def learn(self, at_seconds: float, profiles: Profiles, known_hours: int) -> None:
        """Computes the shares, once an hour, from workloads observed for at least `known_hours`."""
        hour = int(at_seconds // HOUR)
        if self.hour is not None and hour <= self.hour:
            return
        self.hour = hour
        rows = np.flatnonzero(self.workloads["kind"][: self.workloads.used] != _NOBODY)
        rows = rows[(profiles.hours(rows) >= known_hours) & (self.workloads["limit"][rows] > 0)]
        kind = self.workloads["kind"][rows].astype(np.intp)
        needed = np.minimum(profiles.own(rows) / self.workloads["limit"][rows], 1.0)
        self.classes = Table(self.classes.columns)
        self.classes.reach(kind)
        for class_id in np.unique(kind).tolist():
            mine = needed[kind == class_id]
            self.classes["known"][class_id] = len(mine)
            if len(mine) >= self.at_least:
                self.classes["share"][class_id] = np.quantile(mine, self.quantile, method="higher")

    def share(self, members: Members) -> Floats:
        """Returns (m,) shares of the limit; 1 where too few workloads of the class are known."""
        kinds = kinds_of(members)
        self.classes.see(kinds)
        return np.asarray(self.classes["share"][kinds])

    def of(self, kind: int) -> tuple[float, int]:
        """Returns the share of a class, and its number of well-known workloads."""
        self.classes.see(np.array([kind]))
        return float(self.classes["share"][kind]), int(self.classes["known"][kind])

    def forget(self, workloads: Rows) -> None:
        self.workloads.forget(workloads)

    def state(self) -> State:
        hour = np.array([] if self.hour is None else [self.hour], dtype=np.int64)
        parts = {"workloads": self.workloads.state(), "classes": self.classes.state(), "at": {"hour": hour}}
        return {name: array for part, arrays in parts.items() for name, array in named(part, arrays).items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restores the state. An empty state, from before priors existed, starts without shares."""
        if not state:
            return
        self.workloads.restore(part_of(state, "workloads"))
        self.classes.restore(part_of(state, "classes"))
        self.hour = int(state["at.hour"][0]) if len(state["at.hour"]) else None


def kinds_of(members: Members) -> Rows:
    """Returns the class of each member; all members have the same class if none is given."""
    return np.zeros(len(members.machine), dtype=np.intp) if members.kind is None else members.kind
