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
    StartAnswer,
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
    """Of an owner that replaces the pod."""
    target_answers: bool = True
    offers: bool = True
    """Whether the old node has the workload's file still."""
    failing: frozenset[int] = frozenset()
    """Starts that do not come up, by their attempt."""
    told_to_start: tuple[int, str, float] | None = None
    """The agents' copy of the declared start: attempt, node, until when it may begin."""
    starts: dict[int, StartAnswer] = field(default_factory=dict)
    """What became of each start on its node, by attempt."""
    heard: dict[int, StartAnswer] = field(default_factory=dict)
    """The answers that reached the controller."""
    gone_answered: bool = False
    """The agent was asked to evict a pod that had ended."""
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
        starts = desired.replacement and self.job.step is MigrationStep.REPLACING
        node = self.job.start_node
        if self.answers(node) or (not starts and self.told_to_start and self.answers(self.told_to_start[1])):
            self.told_to_start = (self.job.start_attempt, node, self.job.start_by_s or 0.0) if starts else None
        self.begin_start()
        self.receive()
        self.check()

    def answers(self, node: str) -> bool:
        return self.node_answers if node == OLD_NODE else self.target_answers

    def begin_start(self) -> None:
        """The agent of the node begins a start by its copy: once per id, and not after its deadline."""
        if self.told_to_start is None or self.told_to_start[0] in self.starts:
            return
        attempt, _, until_s = self.told_to_start
        assert not self.pod_runs, "started while the old pod runs"
        self.starts[attempt] = StartAnswer.FAILED if self.now_s >= until_s else StartAnswer.STARTING

    def receive(self) -> None:
        """The controller hears of each start whose node answers."""
        for attempt, answer in self.starts.items():
            if self.answers(OLD_NODE if attempt > 1 or self.job.target_node == "" else NEW_NODE):
                self.heard[attempt] = answer

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
        elif self.told_to_evict and not self.pod_runs and not late:
            self.gone_answered = True
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
        for attempt, answer in self.starts.items():
            if answer is StartAnswer.STARTING:
                self.starts[attempt] = StartAnswer.FAILED if attempt in self.failing else StartAnswer.READY
        self.receive()

    def vanish(self) -> None:
        """The old pod ends by itself."""
        self.pod_runs = False

    def view(self) -> MoveView:
        """What the controller sees: of a node that does not answer, nothing new."""
        answer = EvictionAnswer.WITHDRAWN if self.withdrawn else EvictionAnswer.NONE
        pod = OldPod.RUNNING if self.pod_runs else OldPod.GONE
        if not self.node_answers:
            pod, answer = OldPod.UNKNOWN, EvictionAnswer.NONE
        elif self.evicted or self.gone_answered:
            answer = EvictionAnswer.COMPLETED
        return MoveView(
            pod=pod,
            reservation=self.reservation,
            reservation_node=NEW_NODE if self.reservation is ReservationState.AVAILABLE else "",
            eviction=answer,
            replacement=self.replacement,
            replacement_uid="" if self.replacement is Replacement.ABSENT and not self.starts else "new",
            start=self.heard.get(self.job.start_attempt, StartAnswer.NONE),
            start_attempt=self.job.start_attempt,
            start_detail="exit code 1",
            can_return=self.node_answers and self.offers,
        )

    def running(self) -> int:
        """How many pods of the workload run, or may come to run."""
        started = [answer for answer in self.starts.values() if answer is not StartAnswer.FAILED]
        return self.pod_runs + (self.replacement is not Replacement.ABSENT) + len(started)

    def check(self) -> None:
        """What is true at every instant."""
        assert self.evictions <= 1
        assert self.running() <= 1, "two run"
        if self.job.step is not MigrationStep.ENDED:
            return
        match self.job.outcome:
            case MoveOutcome.OLD_POD_RUNS:
                assert not self.evicted, "evicted, but reported as running"
            case MoveOutcome.MOVED:
                assert not self.pod_runs
                assert self.is_ready()
            case MoveOutcome.RETURNED:
                assert (self.starts[1], self.starts[2]) == (StartAnswer.FAILED, StartAnswer.READY)
            case MoveOutcome.EVICTED | MoveOutcome.REPLACEMENT_PENDING:
                assert not self.pod_runs
            case MoveOutcome.POD_VANISHED:
                assert not self.evicted
            case _:
                pass

    def is_ready(self) -> bool:
        """Whether a new pod answers."""
        return Replacement.READY is self.replacement or StartAnswer.READY in self.starts.values()

    def finish(self) -> None:
        """All act until nothing is left to do; time passes. The job must end and leave nothing behind."""
        after_end = 0
        for turn in range(40):
            for act in (self.decide, self.converge, self.schedule, self.evict, self.replace_pod, self.become_ready):
                act()
            self.now_s += 20 if turn < 20 else 400
            after_end += self.job.step is MigrationStep.ENDED
            if after_end > 3:
                break
        assert self.job.step is MigrationStep.ENDED, "every job ends"
        self.converge()
        assert self.reservation is ReservationState.ABSENT, "a reservation is left"
        assert not (self.node_answers and self.told_to_evict), "an eviction is left"
