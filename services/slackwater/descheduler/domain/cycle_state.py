"""What a profile's last cycle left, and the moves that workloads rest after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.model.records import record

OWNER_KEY = "descheduler"
"""One replica decides for all profiles, because a workload rests after a move of any of them: the owner of this key's
partition."""


@record(frozen=True, slots=True)
class ProfileCycle:
    """The last cycle of a profile, with the counts that the next one goes on with."""

    profile: str
    generation: int = 0
    """Of the row."""
    cycle: int = 0
    at_s: float = 0.0
    detectors: Mapping[str, AnomalyState] = field(default_factory=dict)
    outcome: str = ""
    """What the last recorded cycle came to; a quiet cycle with the same outcome is not recorded again."""


@record(frozen=True, slots=True)
class WorkloadMove:
    """A pod of a workload that was proposed for a move, or evicted."""

    pod_uid: str
    workload: str
    moved_at_s: float
    target: str = ""
    """Where it is to go; empty: it was evicted, or nothing is known."""
    until_s: float = 0.0
    """Until then the move is pending."""
    job: str = ""
    """Name of the job of a proposal."""


def moves_by_workload(moves: Iterable[WorkloadMove]) -> Mapping[str, Sequence[float]]:
    """Returns when pods of each workload were moved, in order."""
    times: dict[str, list[float]] = {}
    for move in sorted(moves, key=lambda move: (move.moved_at_s, move.pod_uid)):
        if move.workload:
            times.setdefault(move.workload, []).append(move.moved_at_s)
    return times
