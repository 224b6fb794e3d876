"""Budgets and token buckets: rounding, bounds, and the rate of the queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.podmigration.budgets import DisruptionBudget, InvalidAmountError, scaled, workload_budget
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, MigrationQueue, ObjectLimiter


@given(st.integers(0, 10_000), st.one_of(st.none(), st.integers(0, 200), st.integers(0, 200).map("{}%".format)))
def test_a_budget_is_at_least_one_of_the_replicas_and_at_most_all(replicas: int, value: int | str | None) -> None:
    assert min(1, replicas) <= workload_budget(replicas, value) <= replicas


@given(st.integers(0, 1000), st.integers(0, 100), st.integers(0, 100))
def test_a_higher_percent_is_no_smaller_budget(replicas: int, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert workload_budget(replicas, f"{low}%") <= workload_budget(replicas, f"{high}%")


def test_a_workload_rounds_down_and_a_disruption_budget_up() -> None:
    assert workload_budget(19, "10%") == 1
    assert DisruptionBudget("p", 7, 7, max_unavailable="30%").allowed == 3
    assert DisruptionBudget("p", 7, 7, min_available="50%").allowed == 3
    assert DisruptionBudget("p", 7, 3, min_available="50%").allowed == 0
    assert DisruptionBudget("p", 7, 7).allowed == 0
    assert DisruptionBudget("p", 3, 0, max_unavailable=5).allowed == 0
    assert DisruptionBudget("p", 3, 2, max_unavailable="200%").allowed == 2
    assert DisruptionBudget("p", 0, 0, min_available="50%").allowed == 0


@pytest.mark.parametrize(
    ("budget", "may_go"),
    [
        (DisruptionBudget("p", 3, 2, min_available=2), True),
        (DisruptionBudget("p", 3, 1, min_available=2), False),
        (DisruptionBudget("p", 3, 1, min_available=2, unready_always=True), True),
        (DisruptionBudget("p", 3, 0, min_available=0), False),  # policy/v1 leaves it to what is allowed
        (DisruptionBudget("p", 3, 2, max_unavailable=1, server_allows=0), True),
    ],
)
def test_an_unready_pod_may_go_while_enough_others_are_ready(budget: DisruptionBudget, *, may_go: bool) -> None:
    assert budget.lets_unready_go is may_go


@pytest.mark.parametrize("value", [-1, "5", "-5%", "5.5%", "%", True, ""])
def test_anything_else_is_no_amount(value: int | str) -> None:
    with pytest.raises(InvalidAmountError):
        scaled(value, 10, round_up=False)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 6)), max_size=20), st.sampled_from([0.5, 1.0, 3.0]))
def test_the_queue_starts_no_more_than_its_rate(rounds: list[tuple[float, int]], qps: float) -> None:
    queue, now_s, started, submitted = MigrationQueue(), 0.0, 0, 0
    order: list[str] = []
    for elapsed_s, more in rounds:
        now_s += elapsed_s
        queue = queue.enqueue([f"{submitted + number}" for number in range(more)])
        submitted += more
        jobs, queue = queue.dequeue(now_s, qps)
        order += jobs
        started += len(jobs)
        assert started <= max(qps, 1.0) + qps * now_s + 1e-6
    assert order == [f"{number}" for number in range(started)]


def test_a_queue_without_rate_starts_nothing_and_keeps_a_queued_job_once() -> None:
    queue = MigrationQueue().enqueue(["a", "b"]).enqueue(["b", "c"])
    assert list(queue.jobs) == ["a", "b", "c"]
    assert queue.dequeue(100.0, 0.0) == ((), queue)


@given(st.lists(st.floats(-10, 10), max_size=10), st.integers(1, 3))
def test_a_bucket_never_exceeds_its_burst(steps: list[float], burst: int) -> None:
    bucket, now_s = LimiterBucket(float(burst), 0.0), 0.0
    for step in steps:
        now_s += step
        bucket = bucket.refilled(now_s, 0.3, burst)
        assert 0 <= bucket.whole_tokens <= burst
        bucket = bucket.spent()


def test_a_bucket_that_a_clock_ahead_has_filled_gives_tokens_again_at_once() -> None:
    emptied = LimiterBucket(1.0, 1_000.0).spent()
    assert emptied.refilled(700.0, 1.0, 1.0).whole_tokens == 0
    assert emptied.refilled(700.0, 1.0, 1.0).refilled(701.0, 1.0, 1.0).whole_tokens == 1


def test_only_a_count_limits_a_namespace() -> None:
    assert ObjectLimiter(10.0, "50%").rate_per_s(LimiterScope.NAMESPACE, 100) is None
    assert ObjectLimiter(10.0, 5).rate_per_s(LimiterScope.NAMESPACE, 0) == 0.5
    assert ObjectLimiter(0.0, 5).rate_per_s(LimiterScope.WORKLOAD, 100) is None
    assert ObjectLimiter(300.0).rate_per_s(LimiterScope.WORKLOAD, 100) == pytest.approx(1 / 30)
