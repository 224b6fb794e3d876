"""Of what a move starts again there is one pod at every moment, and none is lost without a word."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import move_commit_of
from tests.world.invariants.payloads import payload_of
from tests.world.plan import POSTGRES
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.nodes import Liveness
from slackwater.model.start_states import StartState
from slackwater.model.workload_labels import offered_label
from slackwater.podmigration.jobs import CONFIRM_S, DEGRADED, MigrationReason, MigrationStep, MoveOutcome

KNOWN_SECONDS: Final = 30.0
"""What was published so long ago is known to each replica that stood not still meanwhile."""
REPORTED_SECONDS: Final = 8.0
READ_SECONDS: Final = 3.0
"""A report that was stored so long ago has been read: the first one after an outage of the broker has not."""
ANSWERED_SECONDS: Final = 60.0
"""At rest a start, and one back, have been answered so long after the end of the old pod."""
CLOCK_SECONDS: Final = 5.0
_GONE: Final = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})
_NOTHING_RUNS: Final = frozenset({StartState.FAILED, StartState.REFUSED, StartState.EXPIRED})


@dataclass
class StartedPods:
    """The pods that ran, and those that starts began."""

    running: dict[str, str] = field(default_factory=dict)
    """The node, by uid."""
    by_start: dict[str, str] = field(default_factory=dict)
    """The uid, by id of the start."""
    ended_by: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    """Of every pod that ever ran."""

    def apply(self, step: Step) -> None:
        if step.kind is Kind.POD_STARTED:
            self.running[step.subject] = self.nodes[step.subject] = str(step.detail["node"])
            if start := str(step.detail.get("start", "")):
                self.by_start[start] = step.subject
        else:
            self.running.pop(step.subject, None)
            self.ended_by[step.subject] = str(step.detail["by"])

    def of_job(self, job: str) -> list[str]:
        """The pods that starts of a job began and that run."""
        return [uid for start, uid in self.by_start.items() if job_of(start) == job and uid in self.running]


def job_of(start: str) -> str:
    return start.rpartition("-start-")[0]


class MovedPodsRunOnce(Invariant):
    """A start is declared only where the committed job asks for it, once the end of the old pod is answered, or a
    minute after the deadline of its eviction; it is declared elsewhere only once the first one is answered as failed.
    So no two pods of a move run at a time. A move ends as moved or returned with the pod that its start began there, or
    says that there is none; at rest no start is left unanswered."""

    NAME = "moved pods run once"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED, Kind.POD_STARTED, Kind.POD_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = StartedPods()
        self._jobs: dict[str, StoredJob] = {}
        """By id, as committed last: also those whose rows are gone."""
        self._answers: dict[str, EvictionOutcome] = {}
        self._states: dict[str, StartState] = {}
        """By id of a start, what was answered last."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            commit = move_commit_of(step)
            for _, after in () if commit is None else commit.jobs.values():
                if after is not None and after.job.starts_replacement:
                    before = self._jobs.get(after.job.id)
                    self._jobs[after.job.id] = after
                    self._check(before, after)
        elif step.kind is Kind.STORED:
            self._store(step)
        else:
            self._pods.apply(step)
            if step.kind is Kind.POD_STARTED and step.detail.get("start"):
                self._check_pod(step.subject, str(step.detail["start"]))

    def _store(self, step: Step) -> None:
        if (completed := payload_of(step, EvictionCompleted)) is not None:
            self._answers.setdefault(completed.id, completed.outcome)
        elif (observed := payload_of(step, IntentObserved)) is not None:
            self._states |= {start.id: start.state for start in observed.starts}
        elif (declared := payload_of(step, IntentDeclared)) is not None:
            for start in declared.starts:
                stored = self._jobs.get(job_of(start.id))
                if stored is None or (stored.start_id, stored.job.start_node) < (start.id, declared.node):
                    raise Violation(f"{start.id} is declared on {declared.node}; no committed job asks for it")

    def _check_pod(self, uid: str, start: str) -> None:
        stored = self._jobs.get(job_of(start))
        if stored is None or stored.start_id < start:
            raise Violation(f"{uid} is started by {start}, which no committed job asks for")
        running = [pod for pod in (stored.job.pod, *self._pods.of_job(stored.job.id)) if pod in self._pods.running]
        if running != [uid]:
            raise Violation(f"{start} begins {uid}; of its move {running} run")

    def _check(self, before: StoredJob | None, after: StoredJob) -> None:
        job, earlier = after.job, 0 if before is None else before.job.start_attempt
        if job.start_attempt > earlier:
            if job.pod in self._pods.running:
                raise Violation(f"{after.start_id} is asked for; {job.pod} runs")
            if earlier == 0:
                self._check_answered(after)
            elif self._states.get(f"{job.id}-start-{earlier}") not in _NOTHING_RUNS:
                said = self._states.get(f"{job.id}-start-{earlier}", "nothing")
                raise Violation(f"{after.start_id} is asked for; the answer to the one before was {said}")
        if job.step is MigrationStep.ENDED and (before is None or before.is_live):
            self._check_end(after)

    def _check_answered(self, stored: StoredJob) -> None:
        """A start follows the answer of an attempt, or the end of the time in which an agent may begin it."""
        job = stored.job
        ids = [f"{job.id}-{attempt + 1}" for attempt in range(stored.attempt)]
        is_answered = any(self._answers.get(identity) in _GONE for identity in ids)
        is_over = (stored.gone_s or 0.0) >= (job.evict_by_s or 0.0) + CONFIRM_S
        if not is_answered and not is_over:
            raise Violation(f"{stored.start_id} is asked for; the eviction of {job.pod} is not answered")

    def _check_end(self, stored: StoredJob) -> None:
        job = stored.job
        by = self._pods.ended_by.get(job.pod, "")
        if by.rpartition("-")[0] == job.id and job.outcome not in (MoveOutcome.MOVED, *DEGRADED):
            raise Violation(f"{job.id} evicted {job.pod} and ended as {job.outcome}")
        if job.outcome not in (MoveOutcome.MOVED, MoveOutcome.RETURNED):
            return
        attempt = 1 if job.outcome is MoveOutcome.MOVED else 2
        node = job.target_node if attempt == 1 else job.node
        began = self._pods.by_start.get(f"{job.id}-start-{attempt}", "")
        if not began or began != job.replacement or self._pods.nodes[began] != node:
            raise Violation(f"{job.id} ended as {job.outcome} on {node}: {job.replacement or 'nothing'}; began {began}")

    def at_rest(self) -> None:
        if not has_settled(self.world.plan):
            return
        now_s = self.world.clock_of(POSTGRES).seconds()
        for stored in self._jobs.values():
            is_long_gone = stored.gone_s is not None and now_s > stored.gone_s + ANSWERED_SECONDS
            if stored.job.step is MigrationStep.REPLACING and is_long_gone:
                said = self._states.get(stored.start_id, "nothing")
                raise Violation(f"{stored.job.id} waits for {stored.start_id}, which is answered with {said}")


class FilesDecideWherePodsGo(Invariant):
    """A pod is moved to a node that was known to have the file that it was started from. Where the start fails, it goes
    back to the old node, if that is known to answer and to have the file still."""

    NAME = "files decide where pods go"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED, Kind.FROZEN, Kind.RESUMED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._files: dict[tuple[str, str], list[tuple[float, str]]] = {}
        """By node and label: since when which digest was published."""
        self._reported_at: dict[str, list[float]] = {}
        self._lost_at: dict[str, float] = {}
        self._stood_still: dict[str, float] = {}
        self._targets: dict[str, str] = {}

    def on_step(self, step: Step) -> None:
        if step.kind in (Kind.FROZEN, Kind.RESUMED):
            self._stood_still[step.subject] = step.at
            return
        if step.kind is Kind.STORED:
            self._store(step)
            return
        commit = move_commit_of(step)
        for before, after in () if commit is None else commit.jobs.values():
            if after is None or not after.job.starts_replacement or commit is None:
                continue
            if after.job.target_node and self._targets.get(after.job.id) != after.job.target_node:
                self._targets[after.job.id] = after.job.target_node
                self._check_target(after, step.at)
            is_end = not after.is_live and (before is None or before.is_live)
            if is_end and after.job.reason is MigrationReason.FAILED_START:
                is_late = step.at - self._stood_still.get(commit.member, -KNOWN_SECONDS) < KNOWN_SECONDS
                self._check_return(after, step.at, is_late=is_late)

    def _store(self, step: Step) -> None:
        if (described := payload_of(step, NodeDescribed)) is not None:
            node, labels = described.facts.name, described.facts.labels
            known = {label for name, label in self._files if name == node}
            for label in known | set(labels):
                seen = self._files.setdefault((node, label), [])
                if not seen or seen[-1][1] != labels.get(label, ""):
                    seen.append((step.at, labels.get(label, "")))
        elif (reported := payload_of(step, UsageReported)) is not None:
            self._reported_at.setdefault(reported.node, []).append(step.at)
        elif (deleted := payload_of(step, NodeDeleted)) is not None:
            self._lost_at[deleted.node] = step.at
        elif (changed := payload_of(step, NodeLivenessChanged)) is not None and changed.liveness is Liveness.LOST:
            self._lost_at[changed.node] = step.at

    def _check_target(self, stored: StoredJob, at: float) -> None:
        node, label = stored.job.target_node, offered_label(stored.pod.workload)
        seen = self._files.get((node, label), [])
        recent = {digest for _, digest in seen[-1:]} | {
            digest for (_, digest), (until, _) in pairwise(seen) if at - until < KNOWN_SECONDS
        }
        if stored.pod.digest not in recent:
            raise Violation(f"{stored.job.id} goes to {node}, which has {sorted(recent) or 'no file'} of {label}")

    def _check_return(self, stored: StoredJob, at: float, *, is_late: bool) -> None:
        job, now_s = stored.job, self.world.clock_of(POSTGRES).seconds()
        if job.start_attempt > 1 or job.start_node == job.node or is_late:
            return
        since, digest = self._files.get((job.node, offered_label(stored.pod.workload)), [(at, "")])[-1]
        reports = [when for when in self._reported_at.get(job.node, ()) if at - when < KNOWN_SECONDS]
        read = [when for when in reports if READ_SECONDS < at - when < REPORTED_SECONDS]
        answers = bool(read) and at - reports[0] > KNOWN_SECONDS / 2
        is_lost = at - self._lost_at.get(job.node, -KNOWN_SECONDS) < KNOWN_SECONDS
        is_right = abs((stored.ended_s or 0.0) - now_s) < CLOCK_SECONDS
        if answers and not is_lost and is_right and digest == stored.pod.digest and at - since > KNOWN_SECONDS:
            raise Violation(f"{job.id} has not gone back to {job.node}, which answers and has the file: {job.message}")


INVARIANTS = (MovedPodsRunOnce, FilesDecideWherePodsGo)
