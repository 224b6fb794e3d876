"""Detects rollouts from windows: a workload is deployed, scaled or reconfigured, so its history is less reliable.

    configuration   a pod requests more or less than any earlier pod of the workload
    revision        a pod has another revision (a label) than the last two of the workload
    pods            within an hour of the stream, at least `pods` new ones and at least `share` of all running ones, of
                    a workload that ran recently (one that starts from nothing is a job, not a change)

A new workload is not changing, because it is unknown. A workload that changes in many hours does so regularly (hourly
jobs, autoscaling): after `habit` such hours within 24, changes are not reported. Pods of a node that returns from
silence are not new pods. Everything follows from the windows and their order; the state is stored with the crowd's.
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
from slackwater.peaks.port import Floats, Rows
from slackwater.peaks.profiles import HOUR
from slackwater.peaks.tables import SeriesColumn, State, Table

REVISION_LABELS = (
    *("slackwater.io/revision", "pod-template-hash", "controller-revision-hash"),
    *("app.kubernetes.io/version", "version"),
)
"""The first label that a pod has identifies its workload's revision; deployment tools may set the first of them."""
_NEVER = -(2**62)
_LATELY = 900
_DAY_OF_HOURS = (1 << 24) - 1
Flags = NDArray[np.bool_]


class RolloutCause(IntEnum):
    """Why a workload is considered changing."""

    NONE = 0
    CONFIGURATION = 1
    REVISION = 2
    PODS = 3


SAID: Mapping[RolloutCause, str] = {
    RolloutCause.CONFIGURATION: "has other requests",
    RolloutCause.REVISION: "has a new revision",
    RolloutCause.PODS: "has many new pods",
}


@record(frozen=True, slots=True)
class Rules:
    """Thresholds of the detection; see the module's docstring."""

    pods: int = 3
    share: float = 0.5
    habit: int = 3


class RolloutSpan(NamedTuple):
    """Start and end of a window, in seconds of the stream."""

    start: int
    end: int


@record(frozen=True, slots=True)
class Sighting:
    """Pods of one window that are new or have other requests, as columns."""

    workload: Rows
    new: Flags
    """Seen for the first time, and not because the node had been silent."""
    cpu: Floats
    memory: Floats
    revision: NDArray[np.int64]
    """0: unknown."""


class Rollouts:
    """The data of each workload that detection needs, and its last change."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        unseen = {"least": np.inf, "most": -np.inf}
        ranges = {
            f"{end}_{resource}": SeriesColumn(np.float64, empty)
            for end, empty in unseen.items()
            for resource in _RESOURCES
        }
        self.table = Table(
            {
                **ranges,
                "revision": SeriesColumn(np.int64),
                "before": SeriesColumn(np.int64),
                "hour": SeriesColumn(np.int32),
                "new": SeriesColumn(np.int32),
                "is_running": SeriesColumn(np.bool_),
                "changes": SeriesColumn(np.uint32),
                "at": SeriesColumn(np.int64, empty=_NEVER),
                "cause": SeriesColumn(np.int8),
            }
        )

    def notice(
        self, span: RolloutSpan, seen: Sighting, last: NDArray[np.int64], running: Callable[[int], int]
    ) -> list[int]:
        """Returns the workloads that change.

        `last`: when each workload of `seen.workload` last had samples before this window; `running(workload)`: its
        present number of pods.
        """
        end = span.end
        self.table.reach(seen.workload)
        has_history = np.isfinite(self.table["least_cpu"][seen.workload])
        changed = []
        for workload in dict.fromkeys(seen.workload[has_history].tolist()):
            mine = seen.workload == workload
            self._turn(workload, int(end // HOUR), int(last[mine].max()) >= span.start - _LATELY)
            self.table["new"][workload] += int(seen.new[mine].sum())
            cause = self._cause(workload, seen, mine, running)
            if cause is not RolloutCause.NONE and self._is_news(workload):
                self.table["at"][workload], self.table["cause"][workload] = end, cause
                changed.append(workload)
        self.table["hour"][seen.workload[~has_history]] = int(
            end // HOUR
        )  # other pods that start in a workload's first hour are no change
        self.learn(seen)
        return changed

    def learn(self, seen: Sighting) -> None:
        """Records the requests and the revision of the pods."""
        self.table.reach(seen.workload)
        for resource, asked in (("cpu", seen.cpu), ("memory", seen.memory)):
            np.minimum.at(self.table[f"least_{resource}"], seen.workload, asked)
            np.maximum.at(self.table[f"most_{resource}"], seen.workload, asked)
        revision, before = self.table["revision"], self.table["before"]
        for workload, seen_revision in zip(seen.workload.tolist(), seen.revision.tolist(), strict=True):
            if seen_revision not in (0, revision[workload], before[workload]):
                before[workload], revision[workload] = revision[workload], seen_revision

    def why(self, workload: int) -> tuple[RolloutCause, int]:
        """Returns the last detected cause of a workload, and its time (seconds of the stream)."""
        if workload >= self.table.used:
            return RolloutCause.NONE, _NEVER
        return RolloutCause(int(self.table["cause"][workload])), int(self.table["at"][workload])

    def reason_text(self, workload: int) -> str:
        """Renders the last detected cause with its time; empty if there is none."""
        cause, at = self.why(workload)
        if cause is RolloutCause.NONE:
            return ""
        return f"{SAID[cause]} since {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"

    def discard(self, workloads: Rows) -> None:
        self.table.forget(workloads)

    def state(self) -> State:
        return self.table.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.table.restore(state)

    def _turn(self, workload: int, hour: int, is_running: bool) -> None:
        """Starts a new count in a new hour; a late window counts in the current hour."""
        passed = hour - int(self.table["hour"][workload])
        if passed <= 0:
            return
        changes = int(self.table["changes"][workload])
        self.table["changes"][workload] = (changes << min(passed, 24)) & _DAY_OF_HOURS
        self.table["hour"][workload], self.table["new"][workload] = hour, 0
        self.table["is_running"][workload] = is_running

    def _cause(self, workload: int, seen: Sighting, mine: Flags, running: Callable[[int], int]) -> RolloutCause:
        for resource, asked in (("cpu", seen.cpu[mine]), ("memory", seen.memory[mine])):
            least, most = self.table[f"least_{resource}"][workload], self.table[f"most_{resource}"][workload]
            if asked.min() < least or asked.max() > most:
                return RolloutCause.CONFIGURATION
        usual = (0, int(self.table["revision"][workload]), int(self.table["before"][workload]))
        if usual[1] and not np.isin(seen.revision[mine], usual).all():
            return RolloutCause.REVISION
        new = int(self.table["new"][workload])
        if new < self.rules.pods or not self.table["is_running"][workload] or self.table["changes"][workload] & 1:
            return RolloutCause.NONE
        return RolloutCause.PODS if new >= self.rules.share * running(workload) else RolloutCause.NONE

    def _is_news(self, workload: int) -> bool:
        """Counts the hour as one with a change. Returns whether there were few such hours before."""
        before = int(self.table["changes"][workload])
        self.table["changes"][workload] = before | 1
        return (before & ~1).bit_count() < self.rules.habit


_RESOURCES = ("cpu", "memory")


def revision_of(labels: Mapping[str, str]) -> int:
    """Returns a number for the revision that the labels name; 0 if they name none."""
    for label in REVISION_LABELS:
        value = labels.get(label)
        if value:
            return 1 + zlib.crc32(f"{label}={value}".encode())
    return 0
