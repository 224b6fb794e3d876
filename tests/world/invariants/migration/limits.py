"""Limits hold at every instant, and a waiting job names the filter that holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import (
    MoveBooks,
    MoveCommit,
    admitted,
    ended_after_round,
    move_commit_of,
)
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.reasons import Reason
from slackwater.migration.domain.job_replay import snapshot_of_document
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.podmigration.budgets import workload_budget
from slackwater.podmigration.jobs import MigrationStep
from slackwater.podmigration.limits import HoldFilter, SkipGate
from slackwater.podmigration.snapshot import MigrationSnapshot

Counts = Mapping[HoldFilter, Counter[str]]
COUNTED: Final = (
    HoldFilter.POD_MIGRATING,
    HoldFilter.WORKLOAD_MIGRATING,
    HoldFilter.NODE,
    HoldFilter.NAMESPACE,
    HoldFilter.GLOBAL,
)


def counts_of(jobs: list[StoredJob]) -> Counts:
    """How many jobs there are by what each filter counts, by hand."""
    found: dict[HoldFilter, Counter[str]] = {name: Counter() for name in COUNTED}
    for stored in jobs:
        for pod in {stored.job.pod, stored.job.replacement} - {""}:
            found[HoldFilter.POD_MIGRATING][pod] += 1
        found[HoldFilter.WORKLOAD_MIGRATING][stored.pod.workload] += 1
        found[HoldFilter.NODE][stored.job.node] += 1
        found[HoldFilter.NAMESPACE][stored.pod.namespace] += 1
        found[HoldFilter.GLOBAL][""] += 1
    return found


class MovesAreWithinLimits(Invariant):
    """Where a round admits a job, no more are under way on its node, in its namespace, of its workload and in all than
    the limits of that round allow: counted from the commits before it, not from what the round says."""

    NAME = "moves are within limits"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()

    def on_step(self, step: Step) -> None:
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        new = list(admitted(commit))
        if not new:
            return
        snapshot = _snapshot(commit)
        if snapshot is None:
            raise Violation(f"{new[0].job.id} is admitted without a record that can be replayed")
        counts = counts_of([*self._books.active(), *ended_after_round(commit)])
        for stored in new:
            self._check(stored, counts, snapshot)

    @staticmethod
    def _check(stored: StoredJob, counts: Counts, snapshot: MigrationSnapshot) -> None:
        limits, pod = snapshot.limits, stored.pod
        bounds: list[tuple[HoldFilter, str, int | None]] = [
            (HoldFilter.POD_MIGRATING, stored.job.pod, 1),
            (HoldFilter.NODE, stored.job.node, limits.of(SkipGate.MAX_MIGRATING_PER_NODE)),
            (HoldFilter.NAMESPACE, pod.namespace, limits.of(SkipGate.MAX_MIGRATING_PER_NAMESPACE)),
            (HoldFilter.GLOBAL, "", limits.of(SkipGate.MAX_MIGRATING_GLOBALLY)),
        ]
        if pod.workload and SkipGate.MAX_MIGRATING_PER_WORKLOAD not in limits.skip_gates:
            replicas = snapshot.workloads[pod.workload].replicas
            budget = max(1, workload_budget(replicas, limits.max_migrating_per_workload))
            bounds.append((HoldFilter.WORKLOAD_MIGRATING, pod.workload, budget))
        for name, scope, limit in bounds:
            count = counts[name][scope]
            if limit is not None and count > limit:
                raise Violation(f"{stored.job.id} is admitted: {count} of {limit} by {name} of {scope or 'all'}")


def _snapshot(commit: MoveCommit) -> MigrationSnapshot | None:
    """What the round says that it was about."""
    for recorded in commit.records:
        if recorded.record.reason is Reason.MIGRATION_ADMITTED and not recorded.record.compact:
            return snapshot_of_document(recorded.record.replay.arguments["snapshot"])
    return None


class WaitingJobsNameTheirFilter(Invariant):
    """After a round each job that waits says what holds it, since when, and with which count of which limit; counts of
    jobs are right. A place may be kept for a job that has waited longer: then it counts as under way."""

    NAME = "waiting jobs name their filter"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()

    def on_step(self, step: Step) -> None:
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        if not commit.has_round or commit.rounds[1] is None:
            return
        active = self._books.active()
        counts = [counts_of(active), counts_of([*active, *ended_after_round(commit)])]
        waiting = [stored for stored in self._books.jobs.values() if stored.job.step is MigrationStep.WAITING]
        oldest_s = min((stored.job.submitted_s for stored in waiting), default=0.0)
        for stored in waiting:
            self._check(stored, counts, kept=int(stored.job.submitted_s > oldest_s))

    @staticmethod
    def _check(stored: StoredJob, counts: list[Counts], kept: int) -> None:
        hold, name = stored.hold, stored.job.id
        if hold is None:
            raise Violation(f"{name} waits after a round, and nothing holds it")
        if hold.count < hold.limit:
            raise Violation(f"{name} is held by {hold.filter} with {hold.count} of {hold.limit}")
        if hold.message not in stored.job.message:
            raise Violation(f"{name} says {stored.job.message!r}; it is {hold.message}")
        of_scope = [count[hold.filter][hold.scope] for count in counts] if hold.filter in COUNTED else []
        if of_scope and not {hold.count, hold.count - kept} & {*of_scope}:
            raise Violation(f"{name} is {hold.message}; {counts[0][hold.filter][hold.scope]} are under way")


INVARIANTS = (MovesAreWithinLimits, WaitingJobsNameTheirFilter)
