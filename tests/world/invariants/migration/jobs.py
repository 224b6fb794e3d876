"""Each job goes the way of its state machine, once, and ends within its stated time; its reservation ends with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import MoveBooks, MoveCommit, move_commit_of
from tests.world.plan import MIGRATION, POSTGRES
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.migration.domain.stored_jobs import StoredJob, StoredReservation
from slackwater.podmigration.jobs import CONFIRM_S, MigrationReason, MigrationStep
from slackwater.podmigration.lifecycle_invariants import TRANSITIONS, broken_by_state, broken_by_transition

LATE_SECONDS: Final = 20.0
"""After its stated time a job has ended, at rest: rounds, a change of the owner, clocks."""


def _reached() -> Mapping[MigrationStep, frozenset[MigrationStep]]:
    """What one commit may lead to: several transitions."""
    found = {step: set(following) for step, following in TRANSITIONS.items()}
    for _ in TRANSITIONS:
        for following in found.values():
            following |= {later for step in following for later in found[step]}
    return {step: frozenset(following) for step, following in found.items()}


REACHED: Final = _reached()


class JobsFollowTheirLife(Invariant):
    """A job is made once; its steps follow each other as its state machine allows, its end is final, and at every
    moment a pod has one live migration at most. Each commit is the next generation of the ledger."""

    NAME = "jobs follow their life"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()
        self._made: set[str] = set()
        self._generation = 0

    def on_step(self, step: Step) -> None:
        commit = move_commit_of(step)
        if commit is None or commit.generations is None:
            return
        before, after = commit.generations
        if (before, after) != (self._generation, self._generation + 1):
            raise Violation(f"the ledger goes from {before} to {after}; it was at {self._generation}")
        self._generation = after
        for name, (earlier, later) in commit.jobs.items():
            self._check(name, earlier, later)
        self._books.apply(commit)
        pods = Counter(stored.job.pod for stored in self._books.active())
        doubled = [pod for pod, count in pods.items() if count > 1]
        if doubled:
            names = sorted(stored.name for stored in self._books.active() if stored.job.pod == doubled[0])
            raise Violation(f"{doubled[0]} has {len(names)} live migrations: {names}")

    def _check(self, name: str, before: StoredJob | None, after: StoredJob | None) -> None:
        if after is None:
            if before is not None and before.is_live:
                raise Violation(f"{name} is {before.job.step} and has no row any more")
            return
        if before is None or before.job.id != after.job.id:
            if before is not None and before.is_live:
                raise Violation(f"{after.job.id} takes the place of {before.job.id}, which is {before.job.step}")
            if after.job.id in self._made:
                raise Violation(f"{after.job.id} is made a second time")
            self._made.add(after.job.id)
        else:
            one, other = before.job, after.job
            if other.step is not one.step and other.step not in REACHED[one.step]:
                raise Violation(f"{one.id} goes from {one.step} to {other.step}")
            if one.step is MigrationStep.ENDED and (broken := broken_by_transition(one, other)):
                raise Violation(f"{one.id}: {broken[0]}")
            if one.abort_requested and not other.abort_requested:
                raise Violation(f"{one.id} was asked to abort, and is not any more")
        if broken := broken_by_state(after.job):
            raise Violation(f"{after.job.id}: {broken[0]}")


class JobsEndInTime(Invariant):
    """A job times out no earlier than it says, and at rest none lives longer."""

    NAME = "jobs end in time"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()

    def on_step(self, step: Step) -> None:
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        for before, after in commit.jobs.values():
            if after is not None and _times_out(before, after):
                decided = [recorded.record.decided_at.timestamp() for recorded in commit.records]
                self._check_early(after, max(decided, default=after.ended_s or 0.0))

    @staticmethod
    def _check_early(stored: StoredJob, now_s: float) -> None:
        job = stored.job
        due_s = job.submitted_s + job.wait_s if job.admitted_s is None else job.admitted_s + job.ttl_s
        if now_s < due_s:
            raise Violation(f"{job.id} timed out {due_s - now_s:.3f} s before its time")

    def at_rest(self) -> None:
        if not has_settled(self.world.plan):
            return
        now_s = self.world.clock_of(POSTGRES).seconds()
        for stored in self._books.jobs.values():
            due_s = _due_s(stored)
            if stored.is_live and due_s is not None and now_s > due_s + LATE_SECONDS:
                raise Violation(f"{stored.job.id} is {stored.job.step} {now_s - due_s:.0f} s after its time")


def _times_out(before: StoredJob | None, after: StoredJob) -> bool:
    """Whether the time of a job is over with this commit. One that withdraws its eviction then ends later, perhaps by a
    clock that was set back meanwhile."""
    was_over = before is not None and before.job.id == after.job.id and before.job.reason is MigrationReason.TIMEOUT
    return after.job.reason is MigrationReason.TIMEOUT and not was_over


def _due_s(stored: StoredJob) -> float | None:
    """When the job has left its step at the latest; None: never."""
    job = stored.job
    if job.step is MigrationStep.WAITING:
        return job.submitted_s + job.wait_s if job.wait_s > 0 else None
    if job.step is MigrationStep.WITHDRAWING and job.evict_by_s is not None:
        return job.evict_by_s + CONFIRM_S
    if job.step is MigrationStep.REPLACING and job.starts_replacement:
        return None  # a start has a time of its own: tests.world.invariants.migration.starts
    return job.evict_by_s if job.step is MigrationStep.EVICTING else job.deadline_s


class ReservationsHaveLiveJobs(Invariant):
    """The reservation of a move is kept for a live job that wants one, and keeps its node; one that has ended stays as
    it is. At rest none is left of a job that has ended."""

    NAME = "reservations have live jobs"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()

    def on_step(self, step: Step) -> None:
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        self._check_changes(commit)
        self._check_left()

    def _check_changes(self, commit: MoveCommit) -> None:
        for name, (before, after) in commit.reservations.items():
            if before is None or after is None or before.reservation.created_s != after.reservation.created_s:
                continue
            one, other = before.reservation, after.reservation
            if one.has_ended and one != other:
                raise Violation(f"reservation {name} has ended as {one.phase} and is {other.phase} now")
            if one.placed_on not in ("", other.placed_on):
                raise Violation(f"reservation {name} goes from {one.placed_on} to {other.placed_on}")

    def _check_left(self) -> None:
        for name, kept in self._books.reservations.items():
            if kept.job and not self._is_wanted(kept):
                stored = self._books.jobs.get(kept.job)
                state = "gone" if stored is None else str(stored.job.step)
                raise Violation(f"reservation {name} is kept for {kept.job}, which is {state}")

    def _is_wanted(self, kept: StoredReservation) -> bool:
        stored = self._books.jobs.get(kept.job)
        return stored is not None and stored.is_live

    def at_rest(self) -> None:
        self._check_left()
        if MIGRATION in self.world.postgres.schemas:
            table = self.world.postgres.schemas[MIGRATION].tables["kept_reservations"]
            if len(list(table.committed())) != len(self._books.reservations):
                raise Violation(
                    f"the table has {len(list(table.committed()))}, its commits {len(self._books.reservations)}"
                )


INVARIANTS = (JobsFollowTheirLife, JobsEndInTime, ReservationsHaveLiveJobs)
