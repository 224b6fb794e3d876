"""No pod is lost by a move and none is doubled: pods end by evictions that a job asked for; jobs say what became."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import MoveBooks, move_commit_of
from tests.world.invariants.payloads import payload_of
from tests.world.move_machines import LOST, NO_EVICTION
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.intents.controls import MIGRATION as WRITER
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.podmigration.jobs import MigrationReason, MigrationStep, MoveOutcome

AGAIN: Final = EvictionOutcome.EXPIRED
"""The answer after which an eviction may be asked for under a new id: others are final."""
GONE: Final = frozenset(
    {
        *(MoveOutcome.MOVED, MoveOutcome.EVICTED, MoveOutcome.REPLACEMENT_PENDING, MoveOutcome.POD_VANISHED),
        MoveOutcome.RETURNED,
    }
)


@dataclass
class PodLives:
    """What is true of pods."""

    workloads: dict[str, str] = field(default_factory=dict)
    """Of every pod that has started."""
    ended_by: dict[str, str] = field(default_factory=dict)
    """By pod, the eviction that ended it, or what else did."""

    def apply(self, step: Step) -> None:
        if step.kind is Kind.POD_STARTED:
            self.workloads[step.subject] = str(step.detail["workload"])
        elif step.kind is Kind.POD_ENDED:
            self.ended_by[step.subject] = str(step.detail["by"])

    def runs(self, uid: str) -> bool:
        return uid in self.workloads and uid not in self.ended_by


class PodsEndByTheirMoves(Invariant):
    """A pod ends by an eviction only if a committed job of that pod asked for it, and each job ends one pod at most. An
    eviction is declared for the pod of its job, never for a dry run, and under a new id only after the answer to the
    last one was that it did not begin in time: what is refused for good is not asked for again."""

    NAME = "pods end by their moves"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED, Kind.POD_STARTED, Kind.POD_ENDED, Kind.POD_SIGNALLED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lives = PodLives()
        self._asked: dict[str, StoredJob] = {}
        """By eviction id, the job that asked for it first."""
        self._answers: dict[str, EvictionOutcome] = {}
        self._begun: dict[str, str] = {}
        """By job, the eviction that an agent has begun."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            self._commit(step)
        elif step.kind is Kind.STORED:
            self._store(step)
        elif step.kind is Kind.POD_SIGNALLED:
            self._begin(step)
        else:
            self._lives.apply(step)
            by = str(step.detail.get("by", LOST))
            if step.kind is Kind.POD_ENDED and by not in NO_EVICTION and by not in self._asked:
                raise Violation(f"{step.subject} ended by {by}, which no job asked for")

    def _commit(self, step: Step) -> None:
        commit = move_commit_of(step)
        for before, after in () if commit is None else commit.jobs.values():
            if after is not None and after.evicting_s is not None and after.is_live:
                self._ask(after)
                self._check_refusal(before, after)

    def _ask(self, stored: StoredJob) -> None:
        identity = stored.eviction_id
        if identity in self._asked:
            return
        if stored.job.dry_run:
            raise Violation(f"{stored.job.id} is a dry run, and evicts {stored.job.pod}")
        if stored.attempt > 1:
            before = f"{stored.job.id}-{stored.attempt - 1}"
            if self._answers.get(before) is not AGAIN:
                said = self._answers.get(before, "nothing")
                raise Violation(f"{identity} is asked for; the answer to {before} was {said}")
        self._asked[identity] = stored

    def _check_refusal(self, before: StoredJob | None, after: StoredJob) -> None:
        """A job that takes in a refusal for good ends in the same commit, unless it is withdrawn."""
        is_news = before is None or before.job.reason is not MigrationReason.FAILED_EVICT
        is_waiting = after.job.step is MigrationStep.EVICTING and after.job.reason is MigrationReason.FAILED_EVICT
        if is_news and is_waiting and self._answers.get(after.eviction_id) is EvictionOutcome.REFUSED:
            raise Violation(f"{after.eviction_id} was refused for good, and {after.job.id} waits for its time")

    def _store(self, step: Step) -> None:
        if (completed := payload_of(step, EvictionCompleted)) is not None:
            self._answers.setdefault(completed.id, completed.outcome)
            return
        declared = payload_of(step, IntentDeclared)
        if declared is None or declared.writer != WRITER.name:
            return
        for item in declared.evictions:
            stored = self._asked.get(item.id)
            if stored is None or stored.job.pod != item.pod_uid or stored.job.node != declared.node:
                raise Violation(f"{item.id} of {item.pod_uid} is declared on {declared.node}; asked by {stored}")

    def _begin(self, step: Step) -> None:
        identity = str(step.detail["by"])
        stored = self._asked.get(identity)
        if stored is None or stored.job.pod != step.subject:
            raise Violation(f"{step.subject} is signalled for {identity}, which no job of it asked for")
        if stored.job.id in self._begun:
            raise Violation(f"{stored.job.id} evicts by {identity}; it has evicted by {self._begun[stored.job.id]}")
        self._begun[stored.job.id] = identity


class JobsSayWhatBecame(Invariant):
    """A job that ended as moved, evicted, pending or vanished has no pod that runs; one whose old pod runs has evicted
    none, then and later. A replacement is a pod of the workload, and stands in for one pod."""

    NAME = "jobs say what became of pods"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.POD_STARTED, Kind.POD_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lives = PodLives()
        self._books = MoveBooks()
        self._ended: dict[str, StoredJob] = {}
        """By id of the job."""
        self._stand_in: dict[str, str] = {}

    def on_step(self, step: Step) -> None:
        if step.kind is not Kind.COMMITTED:
            self._lives.apply(step)
            if step.kind is Kind.POD_ENDED:
                self._check_ended(step.subject)
            return
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        for before, after in commit.jobs.values():
            is_end = after is not None and not after.is_live
            if after is not None and is_end and not (before is not None and before.job == after.job):
                self._ended[after.job.id] = after
                self._check(after)

    def _check(self, stored: StoredJob) -> None:
        job = stored.job
        if job.node and job.outcome in GONE and self._lives.runs(job.pod):  # without one it was never seen
            raise Violation(f"{job.id} ended as {job.outcome}; {job.pod} runs")
        if job.outcome is MoveOutcome.OLD_POD_RUNS:
            self._check_ended(job.pod)
        if job.outcome in (MoveOutcome.MOVED, MoveOutcome.RETURNED):
            new = job.replacement
            if self._lives.workloads.get(new) != stored.pod.workload or new == job.pod:
                raise Violation(f"{job.id} ended with {new or 'nothing'} in place of {job.pod}")
            if self._stand_in.setdefault(new, job.id) != job.id:
                raise Violation(f"{new} stands in for the pods of {self._stand_in[new]} and {job.id}")

    def _check_ended(self, uid: str) -> None:
        by = self._lives.ended_by.get(uid, LOST)
        stored = self._ended.get(by.rpartition("-")[0])
        if stored is not None and stored.job.outcome is MoveOutcome.OLD_POD_RUNS:
            raise Violation(f"{stored.job.id} ended, its old pod running; {uid} ended by {by}")


INVARIANTS = (PodsEndByTheirMoves, JobsSayWhatBecame)
