"""The life of a migration: every interruption at every point, and whatever happens in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from move_world import NEW_NODE, OLD_NODE, MoveWorld

from slackwater.podmigration.jobs import (
    DEGRADED,
    MigrationJob,
    MigrationMode,
    MigrationPhase,
    MigrationReason,
    MigrationStep,
    MoveOutcome,
)
from slackwater.podmigration.lifecycle import (
    EvictionAnswer,
    MoveView,
    OldPod,
    ReservationState,
    admit,
    desired_state,
    hold,
    refuse,
    settle,
    start,
)
from slackwater.podmigration.limits import HoldFilter, JobHold

WAITING = MigrationJob("job", "pod", OLD_NODE, 0.0)
HAPPY: Sequence[Callable[[MoveWorld], None]] = (
    *(MoveWorld.decide, MoveWorld.converge, MoveWorld.decide, MoveWorld.schedule, MoveWorld.decide),
    *(MoveWorld.converge, MoveWorld.decide, MoveWorld.evict, MoveWorld.decide, MoveWorld.converge),
    *(MoveWorld.decide, MoveWorld.replace_pod, MoveWorld.decide, MoveWorld.become_ready, MoveWorld.decide),
)


def interrupt(**changes: object) -> Callable[[MoveWorld], None]:
    def apply(world: MoveWorld) -> None:
        for name, value in changes.items():
            setattr(world, name, value)

    return apply


def ask_to_abort(world: MoveWorld) -> None:
    world.job = replace(world.job, abort_requested=True)


def pause(world: MoveWorld) -> None:
    world.job = replace(world.job, paused=True)


def lose_reservation(world: MoveWorld) -> None:
    world.reservation = ReservationState.ABSENT


def sibling_binds(world: MoveWorld) -> None:
    if world.reservation is ReservationState.AVAILABLE:
        world.reservation = ReservationState.CONSUMED


INTERRUPTIONS: dict[str, Callable[[MoveWorld], None]] = {
    "nothing": interrupt(),
    "abort": ask_to_abort,
    "pause": pause,
    "timeout": interrupt(now_s=10_000.0),
    "pod vanishes": MoveWorld.vanish,
    "node lost": interrupt(node_answers=False),
    "reservation lost": lose_reservation,
    "reservation expired": interrupt(reservation=ReservationState.EXPIRED),
    "reservation unschedulable": interrupt(reservation=ReservationState.UNSCHEDULABLE),
    "sibling binds": sibling_binds,
}
STARTS: dict[str, Callable[[MoveWorld], None]] = {
    "start fails": interrupt(failing=frozenset({1})),
    "both starts fail": interrupt(failing=frozenset({1, 2})),
    "start fails, file gone": interrupt(failing=frozenset({1}), offers=False),
    "target lost": interrupt(target_answers=False),
}
STATED = {"both starts fail", "start fails, file gone", "target lost", "timeout"}
"""What may leave a workload without a pod; the job then says so."""


@pytest.mark.parametrize("second", [None, "abort", "timeout", "node lost"])
@pytest.mark.parametrize(
    ("interruption", "mode", "starts_replacement"),
    [
        *product(INTERRUPTIONS, MigrationMode, (False, True)),
        *product(STARTS, (MigrationMode.RESERVATION_FIRST,), (True,)),
    ],
)
def test_every_interruption_at_every_point(
    interruption: str, second: str | None, mode: MigrationMode, starts_replacement: bool
) -> None:
    """An act that is left out at a point is a crash there: what follows repeats it."""
    for point in range(len(HAPPY) + 1):
        for crashed in (False, True):
            job = replace(WAITING, mode=mode, starts_replacement=starts_replacement)
            world = MoveWorld(admit(job, 0.0))
            for act in HAPPY[:point]:
                act(world)
            (INTERRUPTIONS | STARTS)[interruption](world)
            for act in HAPPY[point + crashed : point + 3]:
                act(world)
            if second is not None:
                INTERRUPTIONS[second](world)
            world.finish()
            unreachable = "node lost" in (interruption, second)
            assert world.job.outcome is not MoveOutcome.UNCONFIRMED or unreachable
            if not world.pod_runs and world.node_answers and world.job.outcome is not MoveOutcome.UNCONFIRMED:
                ended_by_itself = world.job.outcome is MoveOutcome.POD_VANISHED
                said = world.job.outcome in DEGRADED and world.job.message
                stated = ended_by_itself or (said and STATED & {interruption, second})
                assert world.is_ready() or (stated and starts_replacement), world.job


def test_without_interruption_the_pod_is_moved() -> None:
    world = MoveWorld(admit(WAITING, 0.0))
    for act in HAPPY:
        act(world)
    assert world.job.phase is MigrationPhase.SUCCEEDED
    assert world.job.outcome is MoveOutcome.MOVED
    assert world.job.target_node == NEW_NODE
    assert world.job.replacement == "new"
    assert world.steps == [
        *(MigrationStep.RESERVING, MigrationStep.EVICTING, MigrationStep.REPLACING, MigrationStep.ENDED),
    ]


class MoveLife(RuleBasedStateMachine):
    """Acts in any order, the controller with views of the moment; the world checks itself after each act."""

    @initialize(
        mode=st.sampled_from(MigrationMode),
        starts_replacement=st.booleans(),
        dry_run=st.sampled_from([False, False, True]),
        ttl_s=st.sampled_from([0.0, 100.0, 300.0]),
        failing=st.sampled_from([frozenset(), frozenset({1}), frozenset({1, 2})]),
    )
    def submit(
        self, mode: MigrationMode, starts_replacement: bool, dry_run: bool, ttl_s: float, failing: frozenset[int]
    ) -> None:
        job = replace(WAITING, mode=mode, starts_replacement=starts_replacement, dry_run=dry_run, ttl_s=ttl_s)
        self.world = MoveWorld(job, failing=failing)

    @rule()
    def admit(self) -> None:
        self.world.job = admit(self.world.job, self.world.now_s)

    @rule(
        act=st.sampled_from(
            [
                *(MoveWorld.decide, MoveWorld.converge, MoveWorld.schedule, MoveWorld.evict),
                *(MoveWorld.replace_pod, MoveWorld.become_ready),
            ]
        ),
        times=st.integers(1, 3),
    )
    def act(self, act: Callable[[MoveWorld], None], times: int) -> None:
        for _ in range(times):
            act(self.world)

    @rule(seconds=st.sampled_from([1.0, 50.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.world.now_s += seconds

    @rule(answers=st.booleans())
    def connect(self, answers: bool) -> None:
        self.world.node_answers = answers

    @rule(answers=st.booleans(), offers=st.booleans())
    def connect_target(self, answers: bool, offers: bool) -> None:
        self.world.target_answers, self.world.offers = answers, offers

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        if self.world.job.step is not MigrationStep.ENDED:
            self.world.job = replace(self.world.job, paused=paused)

    @rule()
    def abort(self) -> None:
        if self.world.job.step is not MigrationStep.ENDED:
            ask_to_abort(self.world)

    @precondition(lambda self: self.world.reservation is not ReservationState.ABSENT)
    @rule(
        state=st.sampled_from(
            [
                ReservationState.EXPIRED,
                ReservationState.UNSCHEDULABLE,
                ReservationState.CONSUMED,
                ReservationState.ABSENT,
            ]
        )
    )
    def lose_reservation(self, state: ReservationState) -> None:
        self.world.reservation = state

    @rule()
    def vanish(self) -> None:
        if not self.world.evicted:
            self.world.vanish()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            world = self.world
            world.job = replace(world.job, paused=False) if world.job.step is not MigrationStep.ENDED else world.job
            world.job = admit(world.job, world.now_s)
            if world.job.ttl_s == 0:  # without a limit of time it waits for its node
                world.node_answers = True
            world.finish()


TestMoveLife = MoveLife.TestCase
TestMoveLife.settings = settings(max_examples=100, stateful_step_count=25)


def test_a_dry_run_does_nothing_and_succeeds() -> None:
    job = start(admit(replace(WAITING, dry_run=True), 1.0), 2.0)
    assert (job.phase, job.reason, job.outcome) == (
        MigrationPhase.SUCCEEDED,
        MigrationReason.DRY_RUN,
        MoveOutcome.OLD_POD_RUNS,
    )


def test_the_time_to_live_counts_from_admission() -> None:
    job = replace(WAITING, ttl_s=100.0, wait_s=1000.0)
    assert not list(settle(job, MoveView(), 999.0)), "waiting is no use of it"
    admitted = start(admit(job, 999.0), 999.0)
    assert not list(settle(admitted, MoveView(), 1098.9))
    *_, ended = settle(admitted, MoveView(), 1099.0)
    assert (ended.phase, ended.reason) == (MigrationPhase.FAILED, MigrationReason.TIMEOUT)


def test_a_job_that_is_never_admitted_ends_with_what_held_it() -> None:
    held = hold(WAITING, JobHold(HoldFilter.NODE, "n1", 2, 2, 100.0))
    *_, ended = settle(held, MoveView(), WAITING.wait_s)
    assert ended.message == "held by node of n1: 2 of 2"
    assert ended.outcome is MoveOutcome.OLD_POD_RUNS


def test_a_paused_job_holds_its_reservation_but_evicts_nothing() -> None:
    job = replace(start(admit(WAITING, 0.0), 0.0), paused=True)
    view = MoveView(reservation=ReservationState.AVAILABLE, reservation_node=NEW_NODE)
    *_, seen = settle(job, view, 1.0)
    assert desired_state(seen).reservation
    assert seen.step is MigrationStep.RESERVING
    *_, resumed = settle(replace(seen, paused=False), view, 2.0)
    assert resumed.step is MigrationStep.EVICTING


def test_no_pod_is_moved_to_its_own_node() -> None:
    job = start(admit(WAITING, 0.0), 0.0)
    view = MoveView(reservation=ReservationState.AVAILABLE, reservation_node=OLD_NODE)
    *_, ended = settle(job, view, 1.0)
    assert (ended.reason, ended.outcome) == (MigrationReason.FORBIDDEN, MoveOutcome.OLD_POD_RUNS)


def test_an_eviction_that_did_not_begin_is_asked_again_and_shown() -> None:
    job = replace(WAITING, mode=MigrationMode.EVICT_DIRECTLY)
    evicting = start(admit(job, 0.0), 0.0)
    *_, held = settle(evicting, MoveView(eviction=EvictionAnswer.NOT_YET), 1.0)
    assert held.reason is MigrationReason.FAILED_EVICT
    assert desired_state(held).eviction
    *_, ended = settle(held, MoveView(pod=OldPod.GONE), 2.0)
    assert ended.outcome is MoveOutcome.EVICTED


@pytest.mark.parametrize("mode", MigrationMode)
def test_an_eviction_that_is_refused_for_good_ends_its_job(mode: MigrationMode) -> None:
    started = start(admit(replace(WAITING, mode=mode), 0.0), 0.0)
    room = MoveView(reservation=ReservationState.AVAILABLE, reservation_node="elsewhere")
    *_, evicting = settle(started, room, 0.0) if mode is MigrationMode.RESERVATION_FIRST else [started]
    refused = replace(room, eviction=EvictionAnswer.REFUSED, eviction_detail="two budgets")
    *_, ended = settle(evicting, refused, 1.0)
    assert (ended.phase, ended.outcome) == (MigrationPhase.FAILED, MoveOutcome.OLD_POD_RUNS)
    assert (ended.reason, ended.message) == (MigrationReason.FAILED_EVICT, "two budgets")
    asked = replace(evicting, abort_requested=True)
    assert [job.step for job in settle(asked, refused, 1.0)] == [MigrationStep.WITHDRAWING], "an abort goes first"


def test_a_lost_node_leaves_an_unconfirmed_move_and_starts_nothing() -> None:
    job = replace(WAITING, mode=MigrationMode.EVICT_DIRECTLY, starts_replacement=True)
    lost = MoveView(pod=OldPod.UNKNOWN)
    evicting = start(admit(job, 0.0), 0.0)
    *_, withdrawing = settle(evicting, lost, 300.0)
    assert withdrawing.step is MigrationStep.WITHDRAWING
    assert not list(settle(withdrawing, lost, 359.9))
    *_, ended = settle(withdrawing, lost, 360.0)
    assert ended.outcome in DEGRADED
    assert not desired_state(ended).replacement


def test_arbitration_changes_waiting_jobs_only() -> None:
    running = start(admit(WAITING, 0.0), 0.0)
    assert admit(running, 5.0) is running
    assert refuse(running, "no") is running
    assert hold(running, JobHold(HoldFilter.NODE, "n1", 2, 2, 100.0)) is running
    refused = refuse(WAITING, "1 replica")
    assert (refused.phase, refused.reason) == (MigrationPhase.FAILED, MigrationReason.FORBIDDEN)
    *_, invalid = settle(replace(WAITING, pod=""), MoveView(), 1.0)
    assert invalid.reason is MigrationReason.INVALID_POD_REF


def test_an_abort_withdraws_the_eviction_before_the_agent_begins() -> None:
    world = MoveWorld(admit(WAITING, 0.0))
    for act in HAPPY[:6]:
        act(world)
    assert world.told_to_evict
    ask_to_abort(world)
    for act in (MoveWorld.decide, MoveWorld.converge, MoveWorld.evict, MoveWorld.decide):
        act(world)
    assert world.pod_runs
    assert (world.job.phase, world.job.outcome) == (MigrationPhase.ABORTED, MoveOutcome.OLD_POD_RUNS)


def started_move() -> MoveWorld:
    """A move that starts its replacement, whose old pod is gone."""
    world = MoveWorld(admit(replace(WAITING, starts_replacement=True), 0.0))
    for act in HAPPY[:9]:
        act(world)
    assert (world.job.step, world.job.start_node, world.starts) == (MigrationStep.REPLACING, NEW_NODE, {})
    return world


def test_a_start_that_fails_goes_back_once_and_the_job_says_why() -> None:
    world = started_move()
    world.failing = frozenset({1})
    world.finish()
    job = world.job
    assert (job.phase, job.reason, job.outcome) == (
        MigrationPhase.FAILED,
        MigrationReason.FAILED_START,
        MoveOutcome.RETURNED,
    )
    assert job.message == "the start on n-new failed: exit code 1"
    again = started_move()
    again.failing = frozenset({1, 2})
    again.finish()
    assert again.job.outcome is MoveOutcome.REPLACEMENT_PENDING
    assert again.job.message == "the start on n-new failed: exit code 1; the start on n-old failed: exit code 1"


def test_a_start_that_is_not_answered_is_declared_nowhere_else() -> None:
    world = started_move()
    world.target_answers = False
    world.finish()
    assert (world.job.start_attempt, world.job.outcome) == (1, MoveOutcome.REPLACEMENT_PENDING)
    assert world.job.message == "n-new has not said what became of the start: it may run there"


def test_an_abort_after_the_old_pod_ended_does_not_leave_nothing_running() -> None:
    world = started_move()
    ask_to_abort(world)
    world.finish()
    assert (world.job.phase, world.job.outcome) == (MigrationPhase.ABORTED, MoveOutcome.MOVED)
    assert world.is_ready()


def test_nothing_is_started_while_only_a_report_says_that_the_old_pod_is_gone() -> None:
    job = replace(WAITING, mode=MigrationMode.EVICT_DIRECTLY, starts_replacement=True)
    evicting = start(admit(job, 0.0), 0.0)
    for after in settle(evicting, MoveView(pod=OldPod.GONE), 1.0):
        assert after.step is MigrationStep.EVICTING
    *_, confirmed = settle(evicting, MoveView(pod=OldPod.GONE, eviction=EvictionAnswer.COMPLETED), 2.0)
    assert desired_state(confirmed).replacement
