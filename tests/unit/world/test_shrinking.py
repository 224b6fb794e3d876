"""The search for a smaller plan, over runs that are only computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.faults import fault_kinds
from tests.world.plan import Plan, PlannedChange, PlannedFault
from tests.world.run import Outcome
from tests.world.shrinking.candidates import PASSES, cut_after
from tests.world.shrinking.forked import ForkedRunner
from tests.world.shrinking.shrinker import Shrunk, shrink
from tests.world.swarm import draw

PLANTED = "planted: seen"


def outcome_at(at: float, failure: str = PLANTED) -> Outcome:
    return Outcome(1, "", 0, at, 0, {}, {}, failure)


@dataclass(slots=True)
class ComputedRunner:
    """Performs a plan by a function that returns the failure."""

    failure_of: Callable[[Plan], str]
    most_tries: int = 10_000
    tries: int = 0
    performed: list[Plan] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        return self.tries >= self.most_tries

    def first_failing(self, plans: Iterator[Plan], invariant: str) -> tuple[Plan, Outcome] | None:
        for plan in plans:
            if self.is_spent:
                return None
            self.tries += 1
            self.performed.append(plan)
            outcome = outcome_at(plan.fault_seconds - 1, self.failure_of(plan))
            if outcome.failure and outcome.invariant == invariant:
                return plan, outcome
        return None


def shrunk(plan: Plan, runner: ComputedRunner, at: float | None = None) -> Shrunk:
    return shrink(plan, outcome_at(plan.fault_seconds - 1 if at is None else at), runner, lambda _: None)


def faulty(*kinds: str, **more: object) -> Plan:
    faults = tuple(PlannedFault(kind, "broker", 30.0 + 5 * place, 8.0) for place, kind in enumerate(kinds))
    return Plan(1, faults=faults, **more)  # type: ignore[arg-type]  # fields by name


def kinds_of(plan: Plan) -> list[str]:
    return [fault.kind for fault in plan.faults]


def needs_a_and_d(plan: Plan) -> str:
    return PLANTED if {"a", "d"} <= set(kinds_of(plan)) and plan.nodes >= 3 else ""


def test_only_what_the_failure_needs_is_left() -> None:
    changes = tuple(PlannedChange(30.0, "put", "NodeQOS", name) for name in ("one", "two"))
    plan = faulty(*"abcdefgh", changes=changes, settings={"agent": {"sample_seconds": 1.0}}, reorders=True)
    found = shrunk(plan, ComputedRunner(needs_a_and_d))
    assert kinds_of(found.plan) == ["a", "d"]
    assert (found.plan.nodes, found.plan.replicas, found.plan.clients) == (3, 1, 0)
    assert (found.plan.changes, found.plan.settings, found.plan.reorders) == ((), {}, False)
    assert found.plan.seconds < plan.seconds / 4
    assert found.is_minimal


def test_a_failure_that_needs_another_order_is_found_under_another_seed() -> None:
    runner = ComputedRunner(lambda plan: PLANTED if plan.seed != 1 or len(plan.faults) == 8 else "")
    found = shrunk(faulty(*"abcdefgh"), runner)
    assert found.plan.faults == ()
    assert found.plan.seed != 1


def test_another_failure_is_not_taken_for_the_same() -> None:
    runner = ComputedRunner(lambda plan: PLANTED if len(plan.faults) == 4 else "other: seen")
    assert kinds_of(shrunk(faulty(*"abcd"), runner).plan) == list("abcd")


@given(st.integers(1, 40))
@settings(max_examples=20)
def test_the_budget_bounds_the_tries(most: int) -> None:
    runner = ComputedRunner(needs_a_and_d, most_tries=most)
    found = shrunk(faulty(*"abcdefgh"), runner)
    assert runner.tries <= most
    assert needs_a_and_d(found.plan)
    assert not found.is_minimal


@given(st.integers(1, 500))
@settings(max_examples=10)
def test_every_candidate_of_a_drawn_plan_can_be_performed(seed: int) -> None:
    plan, kinds = draw(seed, nodes=4, seconds=200.0), fault_kinds()
    for _, candidates in PASSES:
        for candidate in candidates(plan):
            assert all(fault.target in kinds[fault.kind].targets(candidate) for fault in candidate.faults)
            assert candidate.seconds <= plan.seconds
            assert len(candidate.faults) <= len(plan.faults)
        text = next(candidates(plan), plan).to_json()
        assert Plan.from_json(text).to_json() == text


def test_nothing_after_a_failure_is_kept() -> None:
    plan = faulty(*"abc")
    shorter, left = cut_after(plan, 36.0)
    assert (kinds_of(shorter), kinds_of(left)) == (["a", "b"], ["a", "b"])
    assert (shorter.seconds, left.seconds) == (37.0, plan.seconds)


def test_a_failure_at_rest_keeps_the_time_to_come_to_rest() -> None:
    plan = faulty("a")
    (left,) = cut_after(plan, plan.seconds)
    assert (left.quiet_seconds, left.rest_seconds) == (plan.quiet_seconds, plan.rest_seconds)


def failing(plan: Plan) -> Outcome:
    if plan.nodes == 13:
        raise OSError("a run that breaks down")
    return outcome_at(1.0, PLANTED if plan.nodes >= 5 else "")


def test_forked_runs_find_the_first_failing_plan_in_their_order() -> None:
    runner = ForkedRunner(100, 60.0, workers=2, perform=failing)
    found = runner.first_failing((Plan(1, nodes=nodes) for nodes in (1, 2, 13, 6, 7, 8)), "planted")
    assert found is not None
    assert found[0].nodes == 6
    assert runner.first_failing((Plan(1, nodes=nodes) for nodes in (1, 2)), "planted") is None
    assert runner.first_failing(iter([Plan(1, nodes=9)]), "another") is None


def test_forked_runs_end_with_their_budget() -> None:
    runner = ForkedRunner(2, 60.0, workers=2, perform=failing)
    assert runner.first_failing((Plan(1, nodes=nodes) for nodes in (1, 2, 6)), "planted") is None
    assert runner.tries == 2
    assert runner.is_spent
