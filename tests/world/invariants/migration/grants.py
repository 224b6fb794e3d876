"""Moves begin with the grant of their pool, keep its budget, and end when operators withdraw them."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import ClassVar, Final

from tests.world.changes import Confirmed
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import MoveBooks, move_commit_of
from tests.world.invariants.payloads import payload_of
from tests.world.job_operators import ABORT
from tests.world.move_machines import NO_EVICTION
from tests.world.plan import MIGRATION
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import MOVES_TREE
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.serialized import type_of
from slackwater.podmigration.jobs import MigrationStep
from slackwater.waterline.policies.autonomy import AutonomyPolicy

NOT_BEGUN: Final = frozenset({MigrationStep.WAITING, MigrationStep.ADMITTED})
HEARD_SECONDS: Final = 20.0
"""Until the deletion of a document is read by each replica."""


class MovesHaveGrants(Invariant):
    """A move begins only with an answer that grants it to this job and still holds."""

    NAME = "moves have grants"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted: dict[tuple[str, str], set[float]] = {}
        """By request and job, until when: of each answer, because a request may be delivered twice."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STORED:
            answered = payload_of(step, ReclaimAnswered)
            if answered is not None and answered.tree == MOVES_TREE:
                for job in answered.granted:
                    self._granted.setdefault((answered.id, job), set()).add(answered.valid_until.timestamp())
            return
        commit = move_commit_of(step)
        for before, after in () if commit is None else commit.jobs.values():
            begins = after is not None and after.job.step not in NOT_BEGUN and after.is_live
            if after is None or not begins or (before is not None and before.job.step not in NOT_BEGUN):
                continue
            granted = self._granted.get((after.grant.request, after.job.id), set())
            if after.grant.until_s not in granted:
                raise Violation(f"{after.job.id} begins; its grant {after.grant.request or 'none'} was not granted")


class BudgetsHold(Invariant):
    """During the faults no more pods of a pool are evicted than the largest of its Autonomies allows in an hour, which
    is longer than they last. Without an Autonomy that is known to every replica before the first answer, the default
    counts as well."""

    NAME = "budgets of pools hold"
    KINDS: ClassVar = (Kind.APPLIED, Kind.STORED, Kind.POD_SIGNALLED, Kind.POD_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._evicted: Counter[str] = Counter()
        self._default = default = AutonomyPolicy().evictions_per_hour
        self._known_since = math.inf
        self._is_answered = False
        until = world.plan.fault_seconds
        documents = [one for one in world.plan.changes if one.kind == "Autonomy" and one.at < until]
        amounts = [one.spec.get("evictionsPerHour", default) for one in documents]
        self._most = max(amounts, default=default)

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.APPLIED:
            if step.value.planned.kind == "Autonomy" and step.value.is_done:
                self._known_since = min(self._known_since, step.at)
            return
        if step.kind is Kind.STORED:
            if not self._is_answered and payload_of(step, ReclaimAnswered) is not None:
                self._is_answered = True
                self._most = max(self._most, self._default if step.at < self._known_since + HEARD_SECONDS / 2 else 0)
            return
        by = str(step.detail["by"])
        if step.at >= self.world.plan.fault_seconds or by in NO_EVICTION:
            return
        self._evicted[step.kind] += 1
        if self._evicted[step.kind] > self._most:
            raise Violation(f"{step.subject} is eviction {self._evicted[step.kind]} of the pool; allowed: {self._most}")


class WithdrawnJobsEvictNothing(Invariant):
    """Once the deletion of its document, or the abort of a job without one, was confirmed, and could be read, a job
    does not begin to evict; at rest it has ended, or is known to be aborted. What asks for an abort is dropped only
    with the commit that notes the abort in the job."""

    NAME = "withdrawn jobs evict nothing"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.APPLIED, Kind.DELETED, Kind.ANSWERED, Kind.FROZEN, Kind.RESUMED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()
        self._deleted: dict[str, float] = {}
        """By name of a document that is deleted, since when."""
        self._stored: set[str] = set()
        """Names of documents that are stored: the answer of a change may be on its way still, or lost."""
        self._stood_still: dict[str, float] = {}
        """By process, until when it did last."""

    def on_step(self, step: Step) -> None:
        if step.kind in (Kind.FROZEN, Kind.RESUMED):
            self._stood_still[step.subject] = step.at
        elif step.kind is Kind.COMMITTED:
            self._commit(step)
        else:
            self._confirm(step)

    def _confirm(self, step: Step) -> None:
        confirmed: Confirmed = step.value
        planned = confirmed.planned
        if planned.kind != "PodMigrationJob":
            return
        if planned.verb in ("delete", ABORT) and confirmed.is_done and planned.name not in self._stored:
            self._deleted[planned.name] = step.at
        elif planned.verb == "put":  # stored, or not known to be
            self._deleted.pop(planned.name, None)

    def _commit(self, step: Step) -> None:
        if step.subject == MIGRATION and isinstance(step.value, Commit):
            self._follow_documents(step.value)
        commit = move_commit_of(step)
        if commit is None:
            return
        self._books.apply(commit)
        for name in commit.aborts:
            stored = self._books.jobs.get(name)
            if stored is not None and stored.is_live and not stored.job.abort_requested:
                raise Violation(f"{stored.job.id} is {stored.job.step}; its abort is taken in, and not noted")
        is_late = step.at - self._stood_still.get(commit.member, -HEARD_SECONDS) < HEARD_SECONDS
        for name, (before, after) in commit.jobs.items():
            since = self._deleted.get(name)
            if after is None or after.job.step is not MigrationStep.EVICTING or since is None or is_late:
                continue
            is_new = before is None or before.job.step is not MigrationStep.EVICTING
            if is_new and step.at > since + HEARD_SECONDS:
                raise Violation(f"{after.job.id} evicts {step.at - since:.0f} s after its document was deleted")

    def _follow_documents(self, commit: Commit) -> None:
        for row in commit.inserted("outbox"):
            if row["type"] != type_of(ResourceChanged):
                continue
            changed = ResourceChanged.model_validate(json.loads(row["payload"]))
            if changed.kind == "PodMigrationJob" and changed.deleted:
                self._stored.discard(changed.name)
            elif changed.kind == "PodMigrationJob":
                self._stored.add(changed.name)
                self._deleted.pop(changed.name, None)

    def at_rest(self) -> None:
        for name in self._deleted:
            stored = self._books.jobs.get(name)
            if stored is not None and stored.is_live and not stored.job.abort_requested:
                raise Violation(f"{stored.job.id} is {stored.job.step}; its document is deleted, and it goes on")


INVARIANTS = (MovesHaveGrants, BudgetsHold, WithdrawnJobsEvictNothing)
