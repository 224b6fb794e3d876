"""Rollouts, noticed from windows: a workload is deployed, scaled or configured anew, and its past says less about it.

    configuration   a pod asks for more, or less, than any pod of the workload ever did
    revision        a pod carries another revision (a label) than the last two of the workload
    pods            within an hour of the stream, at least `pods` new ones, at least `share` of all that run now, of a
                    workload of which something ran lately (one that starts from nothing is a job, not a change)

A workload that is new is not changing: it is not known at all. One that changes in many hours does so by habit (hourly
jobs, autoscaling): after `habit` such hours within 24 it is not news. Pods of a node that comes back from silence are
not new pods. All of it follows from the windows and their order; the state is kept with that of the crowd.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.prediction.domain.models.port import Floats, Rows
from slackwater.prediction.domain.models.profiles import HOUR
from slackwater.prediction.domain.models.tables import Column, State, Table

REVISION_LABELS = (
    *("slackwater.io/revision", "pod-template-hash", "controller-revision-hash"),
    *("app.kubernetes.io/version", "version"),
)
"""The first that a pod has says which revision of its workload it is; whoever deploys may set the first of them."""
_NEVER = -(2**62)
_LATELY = 900
_DAY_OF_HOURS = (1 << 24) - 1
Flags = NDArray[np.bool_]


class Cause(IntEnum):
    """Why a workload is taken to change."""

    NONE = 0
    CONFIGURATION = 1
    REVISION = 2
    PODS = 3


SAID: Mapping[Cause, str] = {
    Cause.CONFIGURATION: "asks for something else",
    Cause.REVISION: "has a new revision",
    Cause.PODS: "has many new pods",
}


@record(frozen=True, slots=True)
class Rules:
    """See above."""

    pods: int = 3
    share: float = 0.5
    habit: int = 3


class Span(NamedTuple):
    """A window's, in seconds of the stream."""

    start: int
    end: int


@record(frozen=True, slots=True)
class Sighting:
    """Some pods of one window that are new or ask for something else: columns."""

    workload: Rows
    new: Flags
    """Seen for the first time, and not because their node had been silent."""
    cpu: Floats
    memory: Floats
    revision: NDArray[np.int64]
    """0: unknown."""


class Rollouts:
    """What is known of each workload for noticing that it changes, and when it last did."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        unseen = {"least": np.inf, "most": -np.inf}
        ranges = {f"{end}_{each}": Column(np.float64, empty) for end, empty in unseen.items() for each in _RESOURCES}
        self.table = Table(
            {
                **ranges,
                "revision": Column(np.int64),
                "before": Column(np.int64),
                "hour": Column(np.int32),
                "new": Column(np.int32),
                "is_running": Column(np.bool_),
                "changes": Column(np.uint32),
                "at": Column(np.int64, empty=_NEVER),
                "cause": Column(np.int8),
            }
        )

    def notice(self, span: Span, seen: Sighting, last: NDArray[np.int64], running: Callable[[int], int]) -> list[int]:
        """Which workloads change. `last`: when each one (of `seen.workload`) was heard of before this window;
        `running(workload)`: how many of its pods there are now."""
        end = span.end
        self.table.reach(seen.workload)
        known = np.isfinite(self.table["least_cpu"][seen.workload])
        found = []
        for workload in dict.fromkeys(seen.workload[known].tolist()):
            mine = seen.workload == workload
            self._turn(workload, int(end // HOUR), int(last[mine].max()) >= span.start - _LATELY)
            self.table["new"][workload] += int(seen.new[mine].sum())
            cause = self._cause(workload, seen, mine, running)
            if cause is not Cause.NONE and self._is_news(workload):
                self.table["at"][workload], self.table["cause"][workload] = end, cause
                found.append(workload)
        self.table["hour"][seen.workload[~known]] = int(
            end // HOUR
        )  # whoever else starts in its first hour is no change
        self.learn(seen)
        return found

    def learn(self, seen: Sighting) -> None:
        """What they ask for, and which revision they are."""
        self.table.reach(seen.workload)
        for each, asked in (("cpu", seen.cpu), ("memory", seen.memory)):
            np.minimum.at(self.table[f"least_{each}"], seen.workload, asked)
            np.maximum.at(self.table[f"most_{each}"], seen.workload, asked)
        revision, before = self.table["revision"], self.table["before"]
        for workload, one in zip(seen.workload.tolist(), seen.revision.tolist(), strict=True):
            if one not in (0, revision[workload], before[workload]):
                before[workload], revision[workload] = revision[workload], one

    def why(self, workload: int) -> tuple[Cause, int]:
        """What was last noticed of a workload, and when (seconds of the stream)."""
        if workload >= self.table.used:
            return Cause.NONE, _NEVER
        return Cause(int(self.table["cause"][workload])), int(self.table["at"][workload])

    def said(self, workload: int) -> str:
        """The same in words, with the time of day."""
        cause, at = self.why(workload)
        if cause is Cause.NONE:
            return ""
        return f"{SAID[cause]} since {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"

    def forget(self, workloads: Rows) -> None:
        self.table.forget(workloads)

    def state(self) -> State:
        return self.table.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.table.restore(state)

    def _turn(self, workload: int, hour: int, is_running: bool) -> None:
        """Begin to count anew in a new hour; a window that comes late counts in the running one."""
        passed = hour - int(self.table["hour"][workload])
        if passed <= 0:
            return
        changes = int(self.table["changes"][workload])
        self.table["changes"][workload] = (changes << min(passed, 24)) & _DAY_OF_HOURS
        self.table["hour"][workload], self.table["new"][workload] = hour, 0
        self.table["is_running"][workload] = is_running

    def _cause(self, workload: int, seen: Sighting, mine: Flags, running: Callable[[int], int]) -> Cause:
        for each, asked in (("cpu", seen.cpu[mine]), ("memory", seen.memory[mine])):
            least, most = self.table[f"least_{each}"][workload], self.table[f"most_{each}"][workload]
            if asked.min() < least or asked.max() > most:
                return Cause.CONFIGURATION
        usual = (0, int(self.table["revision"][workload]), int(self.table["before"][workload]))
        if usual[1] and not np.isin(seen.revision[mine], usual).all():
            return Cause.REVISION
        new = int(self.table["new"][workload])
        if new < self.rules.pods or not self.table["is_running"][workload] or self.table["changes"][workload] & 1:
            return Cause.NONE
        return Cause.PODS if new >= self.rules.share * running(workload) else Cause.NONE

    def _is_news(self, workload: int) -> bool:
        """Count the hour as one of change; whether there were few of them."""
        before = int(self.table["changes"][workload])
        self.table["changes"][workload] = before | 1
        return (before & ~1).bit_count() < self.rules.habit


_RESOURCES = ("cpu", "memory")


def revision_of(labels: Mapping[str, str]) -> int:
    """A number for the revision that labels name; 0 where they name none."""
    for label in REVISION_LABELS:
        value = labels.get(label)
        if value:
            return 1 + zlib.crc32(f"{label}={value}".encode())
    return 0
