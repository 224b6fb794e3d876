"""The invariants of a migration, as functions that return what breaks them. Tests and the simulated world check them.

1. Steps go forward only, along the transitions below; an ended job never changes.
2. No eviction is wanted before a reservation was available on another node (ReservationFirst), and none after the end.
3. No replacement is started while the old pod may run: only once it is gone. A second start is declared only after
   the first one is answered as failed.
4. An ended job wants no reservation and no eviction.
5. A job has an outcome exactly when it has ended; a degraded one where the move took the old pod without a new one.
"""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.podmigration.jobs import (
    DEGRADED,
    MigrationJob,
    MigrationMode,
    MigrationPhase,
    MigrationStep,
    MoveOutcome,
)
from slackwater.podmigration.lifecycle import desired_state

TRANSITIONS: Mapping[MigrationStep, frozenset[MigrationStep]] = {
    MigrationStep.WAITING: frozenset({MigrationStep.ADMITTED, MigrationStep.ENDED}),
    MigrationStep.ADMITTED: frozenset({MigrationStep.RESERVING, MigrationStep.EVICTING, MigrationStep.ENDED}),
    MigrationStep.RESERVING: frozenset({MigrationStep.EVICTING, MigrationStep.ENDED}),
    MigrationStep.EVICTING: frozenset({MigrationStep.WITHDRAWING, MigrationStep.REPLACING, MigrationStep.ENDED}),
    MigrationStep.WITHDRAWING: frozenset({MigrationStep.REPLACING, MigrationStep.ENDED}),
    MigrationStep.REPLACING: frozenset({MigrationStep.REPLACING, MigrationStep.ENDED}),  # a start goes back
    MigrationStep.ENDED: frozenset(),
}
_FINAL = frozenset({MigrationPhase.SUCCEEDED, MigrationPhase.FAILED, MigrationPhase.ABORTED})
_AFTER_EVICTION = frozenset({MoveOutcome.MOVED, MoveOutcome.EVICTED, *DEGRADED})


def broken_by_transition(before: MigrationJob, after: MigrationJob) -> list[str]:
    """Returns what a transition breaks."""
    found = []
    if before.step is MigrationStep.ENDED and after != before:
        found.append("an ended job changed")
    if after.step is not before.step and after.step not in TRANSITIONS[before.step]:
        found.append(f"from {before.step} to {after.step}")
    if after.step is MigrationStep.ENDED and before.step is not MigrationStep.ENDED:
        evicted = before.step in (MigrationStep.WITHDRAWING, MigrationStep.REPLACING)
        if not evicted and after.outcome in _AFTER_EVICTION:
            found.append(f"outcome {after.outcome} without an eviction")
        if before.step is MigrationStep.REPLACING and after.outcome not in _AFTER_EVICTION:
            found.append(f"outcome {after.outcome} although the old pod is gone")
    return found


def broken_by_state(job: MigrationJob) -> list[str]:
    """Returns what the job breaks, whatever led to it."""
    desired, found = desired_state(job), []
    ended = job.step is MigrationStep.ENDED
    if ended is (job.outcome is None):
        found.append("outcome without end, or end without outcome")
    if ended is not (job.phase in _FINAL):
        found.append(f"phase {job.phase} in step {job.step}")
    if ended and (desired.reservation or desired.eviction):
        found.append("an ended job wants a reservation or an eviction")
    if desired.replacement and job.step not in (MigrationStep.REPLACING, MigrationStep.ENDED):
        found.append("a replacement is wanted while the old pod may run")
    if job.step is MigrationStep.REPLACING and job.starts_replacement and not (job.start_attempt and job.start_node):
        found.append("no start is declared, and nothing else replaces the pod")
    if job.mode is MigrationMode.RESERVATION_FIRST and desired.eviction and job.target_node in ("", job.node):
        found.append("an eviction without room elsewhere")
    return found
