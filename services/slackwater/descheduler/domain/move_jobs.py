"""What became of proposed moves, by the last state of their jobs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from slackwater.descheduler.domain.cycle_state import WorkloadMove
from slackwater.model.records import record
from slackwater.podmigration.jobs import MigrationPhase, MoveOutcome

ENDED: Final = frozenset({MigrationPhase.SUCCEEDED, MigrationPhase.FAILED, MigrationPhase.ABORTED})


@record(frozen=True, slots=True)
class JobState:
    """The last state of the job of a step."""

    phase: str
    step: str
    outcome: str
    target: str
    replacement: str
    """UID of the new pod."""
    changed_s: float

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens."""
        return self.phase in {phase.value for phase in ENDED}

    @property
    def left_pod(self) -> bool:
        """Whether the move was refused, or given up, and its pod runs where it ran."""
        return self.has_ended and self.outcome == MoveOutcome.OLD_POD_RUNS


@record(frozen=True, slots=True)
class OpenMoves:
    """What moves mean for the placement of their pods now."""

    pending: Sequence[WorkloadMove] = ()
    failed: Collection[str] = ()
    """Pods of which a move was refused, or given up, within the rest."""


NO_MOVES: Final = OpenMoves()


def open_moves(moves: Iterable[WorkloadMove], jobs: Mapping[str, JobState], rest_s: float, now_s: float) -> OpenMoves:
    """Returns the moves that may still be made, and the pods that are not proposed again yet. A move of which the job
    left its pod relieves no node, so that it is no longer pending, whatever time it had."""
    pending: list[WorkloadMove] = []
    failed: set[str] = set()
    for move in moves:
        job = jobs.get(move.job)
        if job is None or not job.left_pod:
            pending += [move] if now_s < move.until_s else []
        elif now_s - job.changed_s < rest_s:
            failed.add(move.pod_uid)
    return OpenMoves(pending, failed)
