"""Moves of one workload at a time: each has its own replacement, and an answer to several changes those that wait."""

from __future__ import annotations

from dataclasses import replace

from round_world import RoundWorldState

from slackwater.migration.domain.eviction_documents import AGAIN_S, START_AGAIN_S, documents_after
from slackwater.migration.domain.eviction_grant import asks, with_answer
from slackwater.migration.domain.job_intake import intake
from slackwater.migration.domain.move_views import candidates, claimed_pods
from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import EvictionGrant, GrantAnswer, MigrationLedger, MovedPod, StoredJob
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationMode, MigrationPhase, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import EvictionAnswer, MoveView, Replacement, advance


def job(name: str, **more: object) -> StoredJob:
    uid = f"pod-of-{name}"
    made = MigrationJob(f"{name}-1", uid, "n0", 0.0, **more)  # type: ignore[arg-type]  # fields of a job
    return StoredJob(made, JobRequest(name, 1, pod_uid=uid), MovedPod(uid, uid, "shop", "shop/web"))


def test_a_pod_that_took_a_reservation_does_not_stand_in_for_another_move() -> None:
    world = RoundWorldState()
    uid, *_ = [world.run("n0") for _ in range(4)]
    world.requests["a"] = JobRequest("a", 1, pod_uid=uid)
    for _ in range(6):
        world.now_s += 2.0
        world.report("n0")
        world.obey("n0")
        world.end()
        for node in ("n1", "n2"):
            world.report(node)
        world.round()
    assert world.ledger.jobs["a"].job.step is MigrationStep.REPLACING
    reserved = next(iter(world.ledger.reservations.values())).reservation
    new = world.run(reserved.placed_on)
    world.report(reserved.placed_on)
    other = job("b", step=MigrationStep.REPLACING, phase=MigrationPhase.RUNNING)
    earlier = replace(other, evicting_s=world.now_s - 5.0)  # its pod is gone, and it comes first
    world.requests["b"] = earlier.request
    world.ledger = replace(world.ledger, jobs={**world.ledger.jobs, "b": earlier})
    world.round()
    assert world.ledger.jobs["a"].job.replacement == new
    assert world.ledger.jobs["b"].job.replacement == ""


def test_a_withdrawn_move_that_has_a_replacement_names_it() -> None:
    withdrawing = job("a", step=MigrationStep.WITHDRAWING, phase=MigrationPhase.RUNNING, evict_by_s=9.0).job
    view = MoveView(eviction=EvictionAnswer.COMPLETED, replacement=Replacement.READY, replacement_uid="new")
    ended = advance(withdrawing, view, 1.0)
    assert ended is not None
    assert (ended.outcome, ended.replacement) == (MoveOutcome.MOVED, "new")


def test_what_started_before_a_postponed_eviction_is_asked_for_again_is_no_replacement() -> None:
    world = RoundWorldState()
    uid, *_ = [world.run("n0") for _ in range(4)]
    world.requests["a"] = JobRequest("a", 1, pod_uid=uid, mode=MigrationMode.EVICT_DIRECTLY)
    for _ in range(4):
        world.now_s += 2.0
        world.report("n0")
        world.obey("n0", EvictionOutcome.EXPIRED)
        world.round()
    world.now_s += 5.0
    world.run("n1")  # of another cause
    for _ in range(5):
        world.now_s += 10.0
        for node in ("n0", "n1"):
            world.report(node)
        world.round()
    stored = world.ledger.jobs["a"]
    assert stored.attempt == 2
    assert candidates(stored, world._seen(), {}) == []


def test_an_ended_move_is_kept_while_others_could_take_its_replacement() -> None:
    moved = job(
        "a", step=MigrationStep.ENDED, outcome=MoveOutcome.MOVED, phase=MigrationPhase.SUCCEEDED, replacement="new"
    )
    live = job("b", step=MigrationStep.REPLACING, phase=MigrationPhase.RUNNING)
    kept = intake({"a": moved, "b": live}, {}, {}, {"a"}, SeenCluster(), 1.0)
    assert claimed_pods(MigrationLedger(jobs=kept)) == {"new": "a-1"}
    assert "a" not in intake({"a": moved}, {}, {}, {"a"}, SeenCluster(), 1.0)
    again = {"a": JobRequest("a", 3, pod_uid="other")}
    kept = intake({"a": moved, "b": live}, again, {"a": 0.0}, (), SeenCluster(), 90.0)
    assert claimed_pods(MigrationLedger(jobs=kept)) == {"new": "a-1"}, "its name is not given to another job yet"
    after = intake({"a": moved}, again, {"a": 0.0}, (), SeenCluster(), 90.0)
    assert after["a"].job.id == "a-3"


def test_a_proposed_job_that_ended_is_kept_where_it_is_aborted_later() -> None:
    """Its proposal may be delivered once more, and would be taken for a new one."""
    ended = job("a", step=MigrationStep.ENDED, outcome=MoveOutcome.OLD_POD_RUNS, phase=MigrationPhase.FAILED)
    proposed = replace(ended, request=replace(ended.request, generation=0))
    assert intake({"a": proposed}, {}, {}, {"a"}, SeenCluster(), 1.0) == {"a": proposed}
    assert intake({"a": ended}, {}, {}, {"a"}, SeenCluster(), 1.0) == {}, "a document has a generation of its own"


def test_a_start_whose_end_is_not_known_is_declared_again() -> None:
    starting = job("a", step=MigrationStep.REPLACING, starts_replacement=True, start_attempt=1, start_node="n1")
    seen = SeenCluster(observed={"n1": (7, 0.0)})
    documents, first = documents_after({}, {"a": starting}, SeenCluster(), 7, 100.0)
    assert [(each.node, each.generation) for each in first] == [("n1", 7)]
    for now_s, declared in ((110.0, []), (100.0 + START_AGAIN_S, [("n1", 8)])):
        _, again = documents_after(documents, {"a": starting}, seen, 8, now_s)
        assert [(each.node, each.generation) for each in again] == declared
    _, unseen = documents_after(documents, {"a": starting}, SeenCluster(), 8, 100.0 + AGAIN_S)
    assert [each.generation for each in unseen] == [8], "sooner where the agent has not answered at all"


def test_an_answer_does_not_change_a_job_that_has_ended() -> None:
    grant = EvictionGrant("ask", 5.0)
    seen = SeenCluster(grants={"ask": GrantAnswer("ask", (), "the budget is used", None, 60.0)})
    admitted = replace(job("a", step=MigrationStep.ADMITTED), grant=grant)
    ended = replace(job("b", step=MigrationStep.ENDED, message="no node"), grant=grant)
    assert with_answer(admitted, seen).job.message == "the budget is used"
    assert with_answer(ended, seen) == ended


def test_leave_that_a_clock_ahead_asked_for_is_asked_for_again() -> None:
    refused = EvictionGrant("ask", 1_000.0, because="in mode throttle", again_s=4_600.0)
    stored = replace(job("a", step=MigrationStep.ADMITTED), grant=refused)
    assert asks(stored, 700.0)
    assert not asks(stored, 1_001.0)
