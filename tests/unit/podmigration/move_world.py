"""A world of one move: scheduler, agent, owner of the pod, and a controller that may crash between any two acts."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.podmigration.jobs import MigrationJob, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import (
    EvictionAnswer,
    MoveView,
    OldPod,
    Replacement,
    ReservationState,
    advance,
    desired_state,
    start,
)
from slackwater.podmigration.lifecycle_invariants import broken_by_state, broken_by_transition

OLD_NODE, NEW_NODE = "n-old", "n-new"


@dataclass
class MoveWorld:
    """What is true, what the agent was told, and what the store holds. Each method is one act that nothing splits."""

    job: MigrationJob
    """As persisted."""
    now_s: float = 0.0
    starts_itself: bool = True
    """There is no queue: an admitted job starts with the next decision."""
    pod_runs: bool = True
    evicted: bool = False
    node_answers: bool = True
    reservation: ReservationState = ReservationState.ABSENT
    told_to_evict: bool = False
    """The agent's copy of the intent; it sees a change only while its node answers."""
    withdrawn: bool = False
    evictions: int = 0
    replacement: Replacement = Replacement.ABSENT
    steps: list[MigrationStep] = field(default_factory=list)

    def decide(self) -> None:
        """Observes, decides one transition and persists it."""
        before = self.job
        after = start(before, self.now_s) if self.starts_itself else before
        if after == before:
            after = advance(before, self.view(), self.now_s) or before
        assert not broken_by_transition(before, after)
        assert not broken_by_state(after)
        self.job = after
        if after.step is not before.step:
            self.steps.append(after.step)
        self.check()

    def converge(self) -> None:
        """Lets the world follow the persisted job."""
        desired = desired_state(self.job)
        if desired.reservation and self.reservation is ReservationState.ABSENT and not self.job.reservation_seen:
            self.reservation = ReservationState.PENDING
        if not desired.reservation:
            self.reservation = ReservationState.ABSENT
        if self.node_answers:
            self.withdrawn |= self.told_to_evict and not desired.eviction and not self.evicted
            self.told_to_evict = desired.eviction
        if desired.replacement and self.replacement is Replacement.ABSENT:
            self.replacement = Replacement.BOUND
            assert not self.pod_runs, "two run"
        self.check()

    def schedule(self) -> None:
        """The scheduler places the reservation."""
        if self.reservation is ReservationState.PENDING:
            self.reservation = ReservationState.AVAILABLE

    def evict(self) -> None:
        """The agent evicts, by its copy of the intent, before the deadline only."""
        late = self.job.evict_by_s is not None and self.now_s >= self.job.evict_by_s
        if self.told_to_evict and self.pod_runs and not late:
            self.pod_runs, self.evicted = False, True
            self.evictions += 1
        self.check()

    def replace_pod(self) -> None:
        """The owner replaces a pod that is gone; the new pod consumes the reservation."""
        if not self.pod_runs and self.replacement is Replacement.ABSENT and not self.job.starts_replacement:
            self.replacement = Replacement.BOUND
            if self.reservation is ReservationState.AVAILABLE:
                self.reservation = ReservationState.CONSUMED

    def become_ready(self) -> None:
        """The new pod answers."""
        if self.replacement is Replacement.BOUND:
            self.replacement = Replacement.READY

    def vanish(self) -> None:
        """The old pod ends by itself."""
        self.pod_runs = False

    def view(self) -> MoveView:
        """What the controller sees: of a node that does not answer, nothing new."""
        answer = EvictionAnswer.WITHDRAWN if self.withdrawn else EvictionAnswer.NONE
        pod = OldPod.RUNNING if self.pod_runs else OldPod.GONE
        if not self.node_answers:
            pod, answer = OldPod.UNKNOWN, EvictionAnswer.NONE
        elif self.evicted:
            answer = EvictionAnswer.COMPLETED
        return MoveView(
            pod=pod,
            reservation=self.reservation,
            reservation_node=NEW_NODE if self.reservation is ReservationState.AVAILABLE else "",
            eviction=answer,
            replacement=self.replacement,
            replacement_uid="" if self.replacement is Replacement.ABSENT else "new",
        )

    def check(self) -> None:
        """What is true at every instant."""
        assert self.evictions <= 1
        assert not (self.pod_runs and self.replacement is not Replacement.ABSENT), "two run"
        if self.job.step is not MigrationStep.ENDED:
            return
        match self.job.outcome:
            case MoveOutcome.OLD_POD_RUNS:
                assert not self.evicted, "evicted, but reported as running"
            case MoveOutcome.MOVED:
                assert not self.pod_runs
                assert self.replacement is Replacement.READY
            case MoveOutcome.EVICTED | MoveOutcome.REPLACEMENT_PENDING:
                assert not self.pod_runs
            case MoveOutcome.POD_VANISHED:
                assert not self.evicted
            case _:
                pass

    def finish(self) -> None:
        """All act until nothing is left to do; time passes. The job must end and leave nothing behind."""
        for _ in range(40):
            for act in (self.decide, self.converge, self.schedule, self.evict, self.replace_pod, self.become_ready):
                act()
            self.now_s += 20
        assert self.job.step is MigrationStep.ENDED, "every job ends"
        self.converge()
        assert self.reservation is ReservationState.ABSENT, "a reservation is left"
        assert not (self.node_answers and self.told_to_evict), "an eviction is left"
