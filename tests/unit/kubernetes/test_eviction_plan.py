"""Evictions through the API server: at most once per id, never late, never another pod, one end per id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.apiserver.records import OwnerRef, PodRecord
from slackwater.intents.controls import MIGRATION
from slackwater.kubernetes.domain.eviction_plan import (
    FORBIDDEN_SECONDS,
    REMOVES_FAILED,
    STUCK_SECONDS,
    CallAnswer,
    EvictionCall,
    EvictionMode,
    EvictionPhase,
    NodeEvictions,
    ServerAnswer,
    TrackedEviction,
    after_answer,
    plan_evictions,
)
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.quantities import Resources

ENSURANCE = "ensurance"


def pod(uid: str = "u1", *, deleting: bool = False, phase: str = "Running", **more: Any) -> PodRecord:
    fields: dict[str, Any] = {"priority": 5_500, "labels": (), "owner": None, **more}
    key = fields.pop("key", f"jobs/{uid}")
    return PodRecord(key, uid, "1", "n1", phase, request=Resources(1, 1), borrowed=(), deleting=deleting, **fields)


def eviction(number: int = 1, uid: str = "u1", seconds: float = 120.0, **more: Any) -> TrackedEviction:
    return TrackedEviction(f"d-{number}", uid, ENSURANCE, "d", 5.0, EPOCH + timedelta(seconds=seconds), "event", **more)


def node(
    *wanted: TrackedEviction,
    tracked: tuple[TrackedEviction, ...] = (),
    pods: tuple[PodRecord, ...] = (),
    may_begin: frozenset[str] = frozenset({ENSURANCE}),
) -> NodeEvictions:
    return NodeEvictions("n1", tracked, wanted, may_begin, {pod.uid: pod for pod in pods})


def step(
    facts: NodeEvictions, seconds: float = 0.0, mode: EvictionMode = EvictionMode.CARRY_OUT
) -> tuple[TrackedEviction, tuple[EvictionCall, ...]]:
    plan = plan_evictions([facts], mode, EPOCH + timedelta(seconds=seconds))
    (only,) = plan.tracked["n1"]
    return only, plan.calls


def test_a_wanted_eviction_is_called_with_uid_and_whole_seconds_of_grace_and_ends_with_its_pod() -> None:
    called, (call,) = step(node(replace(eviction(), grace_seconds=4.2), pods=(pod(),)))
    assert (call.pod, call.uid, call.grace_seconds, call.dry_run) == ("jobs/u1", "u1", 5, False)
    accepted = after_answer(called, CallAnswer(ServerAnswer.ACCEPTED), EvictionMode.CARRY_OUT, EPOCH)
    leaving, calls = step(node(eviction(), tracked=(accepted,), pods=(pod(deleting=True),)), 3)
    assert (leaving.phase, calls) == (EvictionPhase.ACCEPTED, ())
    ended, _ = step(node(eviction(), tracked=(leaving,)), 4)
    assert (ended.outcome, ended.detail) == (EvictionOutcome.TERMINATED, "ended within its grace")
    late, _ = step(node(eviction(), tracked=(leaving,)), 60)
    assert late.outcome is EvictionOutcome.KILLED
    stuck, _ = step(node(eviction(), tracked=(leaving,), pods=(pod(deleting=True),)), 5 + STUCK_SECONDS)
    assert stuck.outcome is EvictionOutcome.FAILED


def test_a_budget_is_waited_for_as_long_as_it_says_and_until_the_deadline() -> None:
    called, _ = step(node(eviction(seconds=30), pods=(pod(),)))
    refused = after_answer(called, CallAnswer(ServerAnswer.BUDGET, "a budget", 10.0), EvictionMode.CARRY_OUT, EPOCH)
    early, calls = step(node(eviction(), tracked=(refused,), pods=(pod(),)), 9.9)
    assert calls == ()
    _, again = step(node(eviction(), tracked=(early,), pods=(pod(),)), 10)
    assert len(again) == 1
    expired, calls = step(node(eviction(), tracked=(early,), pods=(pod(),)), 30)
    assert (expired.outcome, expired.detail, calls) == (EvictionOutcome.EXPIRED, "after 1 calls: a budget", ())


def test_a_budget_ends_an_eviction_that_does_not_wait() -> None:
    called, _ = step(node(eviction(waits=False), pods=(pod(),)))
    ended = after_answer(called, CallAnswer(ServerAnswer.BUDGET, "a budget", 10.0), EvictionMode.CARRY_OUT, EPOCH)
    assert (ended.outcome, ended.detail) == (EvictionOutcome.REFUSED, "a budget")


@pytest.mark.parametrize("waits", [True, False])
def test_what_the_server_refuses_for_good_ends_at_once_with_its_reason(waits: bool) -> None:
    called, _ = step(node(eviction(waits=waits), pods=(pod(),)))
    ended = after_answer(called, CallAnswer(ServerAnswer.REFUSED, "two budgets"), EvictionMode.CARRY_OUT, EPOCH)
    assert (ended.outcome, ended.detail) == (EvictionOutcome.REFUSED, "the API server refuses it: two budgets")
    _, calls = step(node(eviction(waits=waits), tracked=(ended,), pods=(pod(),)), 60)
    assert calls == ()


def test_a_right_that_stays_missing_ends_an_eviction_and_one_of_a_starting_server_does_not() -> None:
    forbidden = CallAnswer(ServerAnswer.FORBIDDEN, "no right")
    called, _ = step(node(eviction(), pods=(pod(),)))
    waiting = after_answer(called, forbidden, EvictionMode.CARRY_OUT, EPOCH)
    called, calls = step(node(eviction(), tracked=(waiting,), pods=(pod(),)), 1)
    assert len(calls) == 1
    accepted = after_answer(called, CallAnswer(ServerAnswer.ACCEPTED), EvictionMode.CARRY_OUT, EPOCH)
    assert accepted.phase is EvictionPhase.ACCEPTED
    ended = after_answer(called, forbidden, EvictionMode.CARRY_OUT, EPOCH + timedelta(seconds=FORBIDDEN_SECONDS))
    assert (ended.outcome, ended.detail) == (EvictionOutcome.REFUSED, "no right")


def test_a_call_whose_answer_was_lost_is_judged_by_its_pod() -> None:
    called, _ = step(node(eviction(), pods=(pod(),)))
    lost = after_answer(called, CallAnswer(ServerAnswer.FAILED, "away"), EvictionMode.CARRY_OUT, EPOCH)
    effective, calls = step(node(eviction(), tracked=(lost,), pods=(pod(deleting=True),)), 1)
    assert (effective.phase, calls) == (EvictionPhase.ACCEPTED, ())
    gone, _ = step(node(eviction(), tracked=(lost,)), 1)
    assert gone.outcome is EvictionOutcome.TERMINATED
    _, again = step(node(eviction(), tracked=(lost,), pods=(pod(),)), 1)
    assert len(again) == 1


def test_a_failed_pod_that_is_listed_still_is_removed_for_a_move() -> None:
    failed = pod(phase="Failed")
    assert MIGRATION.name == REMOVES_FAILED
    ours = replace(eviction(), writer=REMOVES_FAILED)
    called, calls = step(node(ours, pods=(failed,), may_begin=frozenset({REMOVES_FAILED})))
    assert (called.phase, len(calls)) == (EvictionPhase.CALLED, 1)
    gone, _ = step(node(ours, tracked=(called,), pods=()), 1)
    assert gone.outcome is EvictionOutcome.TERMINATED
    being_deleted, _ = step(node(ours, pods=(pod(phase="Failed", deleting=True),)))
    assert being_deleted.outcome is EvictionOutcome.ALREADY_GONE


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        pytest.param(node(eviction()), EvictionOutcome.ALREADY_GONE, id="no such pod"),
        pytest.param(node(eviction(), pods=(pod(phase="Failed"),)), EvictionOutcome.ALREADY_GONE, id="ended pod"),
        pytest.param(node(eviction(seconds=0), pods=(pod(),)), EvictionOutcome.EXPIRED, id="late"),
        pytest.param(node(tracked=(eviction(),), pods=(pod(),)), EvictionOutcome.EXPIRED, id="withdrawn"),
        pytest.param(
            node(eviction(), pods=(pod(key="kube-system/x"),)), EvictionOutcome.REFUSED, id="system namespace"
        ),
        pytest.param(
            node(eviction(), pods=(pod(key="lending/x", labels=(("app.kubernetes.io/part-of", "slackwater"),)),)),
            EvictionOutcome.REFUSED,
            id="its own, in any namespace",
        ),
        pytest.param(node(eviction(), pods=(pod(priority=2_000_000_000),)), EvictionOutcome.REFUSED, id="critical"),
        pytest.param(
            node(eviction(), pods=(pod(owner=OwnerRef("apps", "DaemonSet", "d", "o")),)),
            EvictionOutcome.REFUSED,
            id="daemon",
        ),
        pytest.param(
            node(eviction(), pods=(pod(owner=OwnerRef("", "Node", "n1", "o")),)), EvictionOutcome.REFUSED, id="mirror"
        ),
        pytest.param(
            node(eviction(), pods=(pod(labels=(("slackwater.io/protected", "agent"),)),)),
            EvictionOutcome.REFUSED,
            id="protected",
        ),
    ],
)
def test_what_may_not_begin_ends_without_a_call(facts: NodeEvictions, outcome: EvictionOutcome) -> None:
    ended, calls = step(facts)
    assert (ended.outcome, calls) == (outcome, ())


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(node(eviction(), pods=(pod(),), may_begin=frozenset()), id="its writer has released the node"),
        pytest.param(node(eviction(), pods=(pod(deleting=True),)), id="another deletes the pod"),
    ],
)
def test_what_may_not_begin_yet_waits(facts: NodeEvictions) -> None:
    waiting, calls = step(facts)
    assert (waiting.phase, calls) == (EvictionPhase.WAITING, ())


def test_two_evictions_of_one_pod_are_called_one_after_the_other() -> None:
    plan = plan_evictions([node(eviction(1), eviction(2), pods=(pod(),))], EvictionMode.CARRY_OUT, EPOCH)
    assert [call.id for call in plan.calls] == ["d-1"]


def test_modes_answer_instead_of_evicting() -> None:
    off, calls = step(node(eviction(), pods=(pod(),)), mode=EvictionMode.OFF)
    assert (off.outcome, calls) == (EvictionOutcome.REFUSED, ())
    called, (call,) = step(node(eviction(), pods=(pod(),)), mode=EvictionMode.DRY_RUN)
    assert call.dry_run
    done = after_answer(called, CallAnswer(ServerAnswer.ACCEPTED), EvictionMode.DRY_RUN, EPOCH)
    assert done.outcome is EvictionOutcome.REFUSED


def test_an_ended_eviction_is_kept_while_a_document_could_begin_it_again() -> None:
    ended, _ = step(node(eviction()))
    for facts, seconds in ((node(eviction(), tracked=(ended,)), 500.0), (node(tracked=(ended,)), 120.0)):
        assert step(facts, seconds)[0] == ended
    assert plan_evictions([node(tracked=(ended,))], EvictionMode.CARRY_OUT, EPOCH + timedelta(121)).tracked == {
        "n1": ()
    }


@dataclass
class World:
    """One node, an API server that may lose answers, a writer, and a service that may crash at any point."""

    now: datetime = EPOCH
    wanted: dict[str, TrackedEviction] = field(default_factory=dict)
    stored: tuple[TrackedEviction, ...] = ()
    tracked: tuple[TrackedEviction, ...] = ()
    pods: dict[str, PodRecord] = field(default_factory=dict)
    accepted: list[tuple[str, str, datetime]] = field(default_factory=list)
    ended: dict[str, list[EvictionOutcome]] = field(default_factory=dict)
    numbers: int = 0

    def decide(self, uid: str, seconds: float) -> None:
        self.numbers += 1
        at = self.now + timedelta(seconds=seconds)
        wanted = replace(eviction(self.numbers, uid), deadline=at)
        self.wanted[wanted.id] = wanted

    def crash(self) -> None:
        self.tracked = self.stored

    def work(self, answers: list[str], crash_after: int | None) -> None:
        """One pass: plan, store, call, store; a crash may come after any of these steps."""
        for turn in range(2):
            facts = NodeEvictions("n1", self.tracked, tuple(self.wanted.values()), frozenset({ENSURANCE}), self.pods)
            plan = plan_evictions([facts], EvictionMode.CARRY_OUT, self.now)
            self._store(plan.tracked["n1"])
            if turn == crash_after:
                return self.crash()
            for call in plan.calls:
                answer = self._call(call, answers.pop() if answers else "ok")
                self.tracked = tuple(
                    after_answer(e, answer, EvictionMode.CARRY_OUT, self.now) if e.id == call.id else e
                    for e in self.tracked
                )
            if crash_after == turn + 2:
                return self.crash()
        return None

    def _store(self, after: tuple[TrackedEviction, ...]) -> None:
        before: Mapping[str, TrackedEviction] = {e.id: e for e in self.stored}
        for e in after:
            if e.outcome is not None and (e.id not in before or before[e.id].outcome is None):
                self.ended.setdefault(e.id, []).append(e.outcome)
        self.stored = self.tracked = after

    def _call(self, call: EvictionCall, behaviour: str) -> CallAnswer:
        known = self.pods.get(call.uid)
        if known is None:
            return CallAnswer(ServerAnswer.GONE)
        if behaviour == "budget":
            return CallAnswer(ServerAnswer.BUDGET, "a budget", 2.0)
        if behaviour == "refused":
            return CallAnswer(ServerAnswer.FAILED, "overloaded")
        self.accepted.append((call.id, call.uid, self.now))
        self.pods[call.uid] = replace(known, deleting=True)
        return CallAnswer(ServerAnswer.FAILED, "lost") if behaviour == "lost" else CallAnswer(ServerAnswer.ACCEPTED)


UIDS = ("u1", "u2")
ACTIONS = st.one_of(
    st.tuples(st.just("decide"), st.sampled_from(UIDS), st.floats(0, 20)),
    st.tuples(st.just("withdraw"), st.integers(0, 3)),
    st.tuples(st.just("pass"), st.floats(0, 30)),
    st.tuples(st.just("kubelet"), st.sampled_from(UIDS)),
    st.tuples(st.just("replace"), st.sampled_from(UIDS)),
    st.tuples(
        st.just("work"),
        st.lists(st.sampled_from(("ok", "budget", "lost", "refused")), max_size=3),
        st.one_of(st.none(), st.integers(0, 3)),
    ),
)


@given(st.lists(ACTIONS, max_size=30))
def test_an_id_is_carried_out_at_most_once_never_late_and_never_on_another_pod(actions: list[Any]) -> None:
    world = World(pods={uid: pod(uid) for uid in UIDS})
    decided: dict[str, TrackedEviction] = {}
    for action, *arguments in actions:
        match action:
            case "decide":
                world.decide(*arguments)
                decided |= world.wanted
            case "withdraw":
                world.wanted.pop(f"d-{arguments[0]}", None)
            case "pass":
                world.now += timedelta(seconds=arguments[0])
            case "kubelet" if arguments[0] in world.pods and world.pods[arguments[0]].deleting:
                del world.pods[arguments[0]]
            case "replace" if arguments[0] not in world.pods:
                world.pods[f"{arguments[0]}-new"] = pod(f"{arguments[0]}-new", key=f"jobs/{arguments[0]}")
            case "work":
                world.work(list(arguments[0]), arguments[1])
    ids = [id_ for id_, _, _ in world.accepted]
    assert len(ids) == len(set(ids))
    for id_, uid, at in world.accepted:
        assert uid == decided[id_].pod_uid
        assert at < decided[id_].deadline
    assert all(len(ends) == 1 for ends in world.ended.values())
    for _ in range(2):  # a call whose answer was lost is accepted first, and stuck a day later
        world.now += timedelta(days=1)
        world.work([], None)
    assert set(world.ended) >= set(world.wanted)
