"""The invariants of moves fail on a planted violation, and hold without it; plans of moves are drawn apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.changes import Confirmed
from tests.world.faults import MACHINE_VANISHES, fault_kinds
from tests.world.invariants import Invariant, Violation, invariants_of
from tests.world.invariants.decisions.repeat import check_repeats
from tests.world.invariants.descheduler.proposals import MovesEndWithConstantLoad, ProposalsKeepToProfiles
from tests.world.invariants.migration.grants import BudgetsHold, MovesHaveGrants, WithdrawnJobsEvictNothing
from tests.world.invariants.migration.jobs import JobsEndInTime, JobsFollowTheirLife, ReservationsHaveLiveJobs
from tests.world.invariants.migration.limits import MovesAreWithinLimits, WaitingJobsNameTheirFilter
from tests.world.invariants.migration.move_commits import MoveBooks, MoveCommit
from tests.world.invariants.migration.pods import JobsSayWhatBecame, PodsEndByTheirMoves
from tests.world.moves import POOL
from tests.world.plan import MIGRATION, Plan, PlannedChange, machines, outboxes
from tests.world.settling import MOVES_SECONDS, has_settled
from tests.world.swarm import draw
from tests.world.trace import Kind, Step

from slackwater.descheduling.placement import PlacedPod
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.migration.domain.migration_round import JobStep
from slackwater.migration.domain.stored_jobs import EvictionGrant, MovedPod, StoredJob, StoredReservation
from slackwater.migration.usecases.job_records import admission_record, step_record
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationReason, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import EvictionAnswer, MoveView, admit, advance, hold, start
from slackwater.podmigration.limits import ArbitrationArgs, HoldFilter, JobHold, MigrationLimits
from slackwater.podmigration.snapshot import MigrationSnapshot, WaitingJob, WorkloadReplicas
from slackwater.reservations.reservation import Reservation

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
WEB = "shop/Deployment/web"


def waiting(name: str, pod: str = "", node: str = "n0") -> StoredJob:
    uid = pod or f"pod-of-{name}"
    job = MigrationJob(f"{name}-1", uid, node, EPOCH.timestamp())
    return StoredJob(job, JobRequest(name, 1, pod_uid=uid), MovedPod(uid, uid, "shop", WEB))


def after_admission(stored: StoredJob, at_s: float = 1.0) -> StoredJob:
    return replace(stored, job=admit(stored.job, EPOCH.timestamp() + at_s))


def evicting(stored: StoredJob) -> StoredJob:
    job = replace(
        start(after_admission(stored).job, 0.0), step=MigrationStep.EVICTING, target_node="n1", evict_by_s=9.0
    )
    return replace(stored, job=job, evicting_s=2.0)


def ended(stored: StoredJob, outcome: MoveOutcome, reason: MigrationReason = MigrationReason.COMPLETE) -> StoredJob:
    phase = "Succeeded" if outcome is MoveOutcome.MOVED else "Failed"
    job = replace(stored.job, step=MigrationStep.ENDED, outcome=outcome, reason=reason, phase=phase)
    return replace(stored, job=job, ended_s=EPOCH.timestamp() + 2.0)


class MoveLedger:
    """Commits by hand, for one invariant."""

    def __init__(self, invariant: type[Invariant], *changes: PlannedChange) -> None:
        plan = Plan(1, move_nodes=3, quiet_seconds=MOVES_SECONDS, changes=changes)
        clock = SimpleNamespace(seconds=lambda: EPOCH.timestamp() + 5000.0)
        world: Any = SimpleNamespace(
            plan=plan, clock_of=lambda _: clock, postgres=SimpleNamespace(schemas={}), loop=None, random=None
        )
        self.invariant = invariant(world)
        self.books = MoveBooks()
        self.generation = 0

    def step(self, kind: Kind, subject: str, value: Any = None, at: float = 20.0, **detail: str) -> None:
        payload = [value] if kind is Kind.STORED else []
        self.invariant.on_step(Step(1, at, "", kind, subject, detail=detail, value=value, decoded=payload))

    def commit(
        self, *jobs: StoredJob, kept: dict[str, StoredReservation | None] | None = None, skips: int = 1, **more: Any
    ) -> None:
        commit = MoveCommit("migration-0/1", generations=(self.generation, self.generation + skips), **more)
        commit.jobs = {job.name: (self.books.jobs.get(job.name), job) for job in jobs}
        commit.reservations = {name: (self.books.reservations.get(name), one) for name, one in (kept or {}).items()}
        self.generation += skips
        self.books.apply(commit)
        self.invariant.on_step(Step(1, 20.0, "", Kind.COMMITTED, MIGRATION, decoded=[commit]))


def snapshot(*jobs: StoredJob, limits: MigrationLimits | None = None) -> MigrationSnapshot:
    return MigrationSnapshot(
        waiting=[WaitingJob(job.name, job.job.pod, "shop", job.job.node, WEB, 0.0) for job in jobs],
        workloads={WEB: WorkloadReplicas(20)},
        limits=limits or MigrationLimits(max_migrating_per_node=1, object_limiters={}),
        args=ArbitrationArgs(interval_s=1.0),
    )


def recorded(job: StoredJob, made: MigrationSnapshot) -> Any:
    return SimpleNamespace(record=admission_record(job, made, 1, EPOCH))


def test_a_way_that_no_job_goes_is_found() -> None:
    ledger = MoveLedger(JobsFollowTheirLife)
    ledger.commit(waiting("a"))
    ledger.commit(evicting(waiting("a")))
    with pytest.raises(Violation, match="a-1 goes from evicting to waiting"):
        ledger.commit(waiting("a"))
    ledger = MoveLedger(JobsFollowTheirLife)
    ledger.commit(waiting("a"))
    ledger.commit(ended(waiting("a"), MoveOutcome.OLD_POD_RUNS))
    with pytest.raises(Violation, match="a-1: an ended job changed"):
        ledger.commit(replace(ended(waiting("a"), MoveOutcome.POD_VANISHED), attempt=2))


def test_two_live_migrations_of_a_pod_and_a_generation_left_out_are_found() -> None:
    ledger = MoveLedger(JobsFollowTheirLife)
    ledger.commit(after_admission(waiting("a", "web-0")), waiting("b", "web-0"))
    with pytest.raises(Violation, match=r"web-0 has 2 live migrations: \['a', 'b'\]"):
        ledger.commit(after_admission(waiting("b", "web-0")))
    with pytest.raises(Violation, match="the ledger goes from 2 to 4"):
        ledger.commit(waiting("c"), skips=2)


def test_a_job_that_ends_before_its_time_or_lives_longer_is_found() -> None:
    ledger = MoveLedger(JobsEndInTime)
    ledger.commit(after_admission(waiting("a")))
    with pytest.raises(Violation, match=r"a-1 timed out 299\.000 s before its time"):
        ledger.commit(ended(after_admission(waiting("a")), MoveOutcome.OLD_POD_RUNS, MigrationReason.TIMEOUT))
    ledger = MoveLedger(JobsEndInTime)
    ledger.commit(after_admission(waiting("b")))
    with pytest.raises(Violation, match="b-1 is admitted 4699 s after its time"):
        ledger.invariant.at_rest()


def test_a_reservation_without_a_live_job_is_found() -> None:
    room = StoredReservation(Reservation("pmj-a-1", PlacedPod("", "", "shop", ""), (), 0.0), job="a")
    ledger = MoveLedger(ReservationsHaveLiveJobs)
    ledger.commit(after_admission(waiting("a")), kept={"pmj-a-1": room})
    with pytest.raises(Violation, match="reservation pmj-a-1 is kept for a, which is ended"):
        ledger.commit(ended(after_admission(waiting("a")), MoveOutcome.OLD_POD_RUNS))
    moved = replace(room, reservation=replace(room.reservation, placed_on="n1"))
    ledger = MoveLedger(ReservationsHaveLiveJobs)
    ledger.commit(after_admission(waiting("a")), kept={"pmj-a-1": moved})
    other = replace(moved, reservation=replace(moved.reservation, placed_on="n2"))
    with pytest.raises(Violation, match="goes from n1 to n2"):
        ledger.commit(kept={"pmj-a-1": other})


def test_more_than_the_limit_of_a_node_is_found() -> None:
    ledger = MoveLedger(MovesAreWithinLimits)
    first, second = waiting("a"), waiting("b")
    made = snapshot(first, second)
    ledger.commit(after_admission(first), second, records=[recorded(after_admission(first), made)])
    with pytest.raises(Violation, match="b-1 is admitted: 2 of 1 by node of n0"):
        ledger.commit(after_admission(second), records=[recorded(after_admission(second), made)])
    with pytest.raises(Violation, match="c-1 is admitted without a record"):
        ledger.commit(after_admission(waiting("c", node="n1")))


def test_a_job_that_waits_for_nothing_or_for_a_wrong_count_is_found() -> None:
    ledger = MoveLedger(WaitingJobsNameTheirFilter)
    with pytest.raises(Violation, match="a-1 waits after a round, and nothing holds it"):
        ledger.commit(waiting("a"), rounds=(None, 1.0))
    held = JobHold(HoldFilter.NODE, "n0", 1, 1, 0.0)
    blocked = replace(waiting("b"), hold=held, job=hold(waiting("b").job, held))
    ledger = MoveLedger(WaitingJobsNameTheirFilter)
    ledger.commit(after_admission(waiting("a")), blocked, rounds=(None, 1.0))
    with pytest.raises(Violation, match="b-1 is held by node of n0: 1 of 1; 0 are under way"):
        ledger.commit(ended(after_admission(waiting("a")), MoveOutcome.MOVED), rounds=(1.0, 2.0))


def test_a_pod_that_no_job_asked_to_end_and_a_second_eviction_are_found() -> None:
    ledger = MoveLedger(PodsEndByTheirMoves)
    ledger.commit(evicting(waiting("a", "web-0")))
    ledger.step(Kind.POD_SIGNALLED, "web-0", by="a-1-1")
    ledger.step(Kind.POD_ENDED, "web-0", by="a-1-1")
    with pytest.raises(Violation, match="web-1 ended by b-1-1, which no job asked for"):
        ledger.step(Kind.POD_ENDED, "web-1", by="b-1-1")
    with pytest.raises(Violation, match="web-1 is signalled for a-1-1, which no job of it asked for"):
        ledger.step(Kind.POD_SIGNALLED, "web-1", by="a-1-1")
    with pytest.raises(Violation, match="a-1-2 is asked for; the answer to a-1-1 was nothing"):
        ledger.commit(replace(evicting(waiting("a", "web-0")), attempt=2))


def test_a_job_that_says_something_else_than_what_became_is_found() -> None:
    ledger = MoveLedger(JobsSayWhatBecame)
    for uid in ("web-0", "web-1"):
        ledger.step(Kind.POD_STARTED, uid, workload=WEB)
    ledger.commit(evicting(waiting("a", "web-0")))
    with pytest.raises(Violation, match="a-1 ended as moved; web-0 runs"):
        ledger.commit(ended(evicting(waiting("a", "web-0")), MoveOutcome.MOVED))
    ledger.commit(ended(evicting(waiting("b", "web-1")), MoveOutcome.OLD_POD_RUNS))
    with pytest.raises(Violation, match="b-1 ended, its old pod running; web-1 ended by b-1-1"):
        ledger.step(Kind.POD_ENDED, "web-1", by="b-1-1")


def test_a_pod_that_stands_in_for_two_is_found() -> None:
    ledger = MoveLedger(JobsSayWhatBecame)
    ledger.step(Kind.POD_STARTED, "new", workload=WEB)
    first, second = (ended(evicting(waiting(name)), MoveOutcome.MOVED) for name in ("a", "b"))
    ledger.commit(replace(first, job=replace(first.job, replacement="new")))
    with pytest.raises(Violation, match="new stands in for the pods of a-1 and b-1"):
        ledger.commit(replace(second, job=replace(second.job, replacement="new")))


def test_a_move_without_leave_and_one_too_many_are_found() -> None:
    answer = ReclaimAnswered(
        id="ask", tree="migration:jobs", granted=("a-1",), valid_until=EPOCH + timedelta(seconds=60), answered_at=EPOCH
    )
    grant = EvictionGrant("ask", 0.0, answer.valid_until.timestamp())
    ledger = MoveLedger(MovesHaveGrants)
    ledger.step(Kind.STORED, f"sw.v1.{ReclaimAnswered.TYPE}.1.x", answer)
    ledger.commit(replace(evicting(waiting("a")), grant=grant))
    with pytest.raises(Violation, match="b-1 begins; its grant ask was not granted"):
        ledger.commit(replace(evicting(waiting("b")), grant=grant))
    budget = MoveLedger(BudgetsHold, PlannedChange(1.0, "put", "Autonomy", "default", {"evictionsPerHour": 1}))
    budget.step(Kind.POD_SIGNALLED, "web-0", by="a-1-1")
    with pytest.raises(Violation, match="web-1 is eviction 2 of the pool; allowed: 1"):
        budget.step(Kind.POD_SIGNALLED, "web-1", by="b-1-1")


def test_a_withdrawn_job_that_goes_on_is_found() -> None:
    planned = PlannedChange(0.0, "delete", "PodMigrationJob", "a")
    ledger = MoveLedger(WithdrawnJobsEvictNothing)
    ledger.commit(after_admission(waiting("a")))
    ledger.step(Kind.DELETED, "PodMigrationJob/a", Confirmed(planned, is_done=True), at=-1.0)
    with pytest.raises(Violation, match="a-1 evicts 21 s after its document was deleted"):
        ledger.commit(evicting(waiting("a")))
    with pytest.raises(Violation, match="a-1 is evicting; its document is deleted, and it goes on"):
        ledger.invariant.at_rest()


def proposal(pod: str, node: str = "n0", target: str = "n1", at_s: float = 0.0) -> MoveProposed:
    return MoveProposed(
        id=pod, profile="hot", cycle=1, plugin="LowNodeLoad", pod_uid=pod, pod_name=pod, namespace="shop",
        workload=WEB, node=node, target=target, reason="", ttl_seconds=10.0, decision_id="d",
        proposed_at=EPOCH + timedelta(seconds=at_s),
    )  # fmt: skip


def test_proposals_beyond_limits_without_a_target_or_of_resting_workloads_are_found() -> None:
    ledger: Any = MoveLedger(ProposalsKeepToProfiles)
    check = ledger.invariant
    profile = DeclaredProfile("hot")
    with pytest.raises(Violation, match="hot proposes 3 moves by node; allowed: 2"):
        check._check_limits(profile, [proposal("a"), proposal("b"), proposal("c")])
    with pytest.raises(Violation, match="hot proposes a from n0 to n0"):
        check._check_limits(profile, [proposal("a", target="n0")])
    arguments = {"now_s": EPOCH.timestamp() + 60.0, "cluster": {"pods": [{"workload": WEB}]}}
    check._check_rest(profile, [proposal("a", at_s=60.0)], arguments)
    check._last[WEB] = {"b": EPOCH.timestamp()}
    with pytest.raises(Violation, match=r"proposes 1 of 1 pods of shop/Deployment/web; 1 rest for 1800 s"):
        check._check_rest(profile, [proposal("a", at_s=60.0)], arguments)
    check._last[WEB] = {name: EPOCH.timestamp() - 4000.0 for name in "bcd"}
    with pytest.raises(Violation, match="3 were moved, and 3 of each are a loop"):
        check._check_rest(profile, [proposal("a", at_s=60.0)], arguments)


def test_a_proposal_and_an_eviction_at_rest_are_found() -> None:
    ledger = MoveLedger(MovesEndWithConstantLoad)
    ledger.step(Kind.POD_ENDED, "web-0", by="a-1-1")
    ledger.step(Kind.PHASE, "rest")
    ledger.step(Kind.POD_ENDED, "web-0", by="the node was lost")
    with pytest.raises(Violation, match="web-1 is evicted at rest by a-1-1"):
        ledger.step(Kind.POD_ENDED, "web-1", by="a-1-1")
    with pytest.raises(Violation, match="hot proposes web-2 from n0 to n1"):
        ledger.step(Kind.STORED, f"sw.v1.{MoveProposed.TYPE}.1.x", proposal("web-2"))


def test_records_of_moves_that_repeat_with_another_result_are_found() -> None:
    job = evicting(waiting("a"))
    view = MoveView(eviction=EvictionAnswer.COMPLETED)
    after = advance(job.job, view, 3.0)
    assert after is not None
    step = step_record(JobStep("a", job.job, after, view), replace(job, job=after), 2, EPOCH)
    made = snapshot(waiting("a"))
    admission = admission_record(after_admission(waiting("a")), made, 1, EPOCH)
    for record in (step, admission):
        check_repeats(record)
        with pytest.raises(Violation, match="repeats with another result"):
            check_repeats(record.model_copy(update={"result": record.result + 1}))


def test_plans_of_moves_are_drawn_apart_and_settle() -> None:
    names = {invariant.NAME for invariant in invariants_of(Plan(1, move_nodes=3))}
    assert {"moves are within limits", "moves end with constant load", "facts are found once"} <= names
    assert not {"moves are within limits"} & {invariant.NAME for invariant in invariants_of(Plan(1))}
    assert MACHINE_VANISHES.name in fault_kinds()
    vanishing = 0
    for seed in range(1, 31):
        plan = draw(seed, seconds=120.0, moves=True)
        assert has_settled(plan)
        assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
        assert plan == draw(seed, seconds=120.0, moves=True)
        assert {change.spec["nodePool"] for change in plan.changes if change.kind == "Autonomy"} == {POOL}
        assert len(machines(plan)) == plan.move_nodes
        vanishing += any(fault.kind == MACHINE_VANISHES.name for fault in plan.faults)
        for other in (draw(seed, seconds=120.0), draw(seed, seconds=120.0, quotas=True)):
            assert MACHINE_VANISHES.name not in {fault.kind for fault in other.faults}
            assert MIGRATION not in outboxes(other)
    assert vanishing > 5
