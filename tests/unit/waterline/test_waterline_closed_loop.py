"""The planner in a closed loop with a plant: it closes the gap, gives back what it took, and does not swing."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from waterline_plant import Loop, Plant, policy

from slackwater.decisions.reasons import DecisionKind
from slackwater.waterline.policy import Rule, ThrottlePolicy

LINE = 0.10
demands = st.integers(min_value=200, max_value=2000)
weights = st.floats(min_value=0.1, max_value=100)
fair_weights = st.floats(min_value=1, max_value=100)
"""Prod weighs at least as much as one batch pod: at rest it is not pressed by the mere number of batch pods."""
crowds = st.integers(min_value=1, max_value=6)
blind = st.floats(min_value=0.0, max_value=0.7)


def greedy(count: int) -> dict[str, int]:
    return {f"b{i}": 10_000 for i in range(count)}


def surge(demand: int, weight: float, crowd: int, blindness: float) -> Loop:
    return Loop(Plant(prod_demand=demand, prod_weight=weight, blindness=blindness, batch=greedy(crowd)))


def test_a_surge_is_relieved_in_the_first_cycle_when_the_pressure_shows_all_that_was_lacking() -> None:
    loop = Loop(Plant(prod_demand=1500, prod_weight=1.0, batch=greedy(1)))
    assert loop.plant.pressure() > 0.3
    loop.tick()
    assert loop.plant.pressure() <= LINE
    assert loop.plant.limits == {"b0": 1000 - 500 - 50}


@given(demands, weights, crowds, blind)
def test_pressure_comes_down_to_the_waterline_or_everybody_stands_at_the_floor(
    demand: int, weight: float, crowd: int, blindness: float
) -> None:
    loop = surge(demand, weight, crowd, blindness)
    loop.run(40)
    at_floor = all(limit <= 50 for limit in loop.plant.limits.values()) and len(loop.plant.limits) == crowd
    lowest = min(made.gap_milli for _, made in loop.plans[-1:])
    assert loop.plant.pressure() <= LINE or at_floor or lowest * 1.1 < 20 * crowd


@given(demands, weights, crowds, blind)
def test_the_greedy_batch_gets_what_is_left(demand: int, weight: float, crowd: int, blindness: float) -> None:
    loop = surge(demand, weight, crowd, blindness)
    loop.run(60)
    usages = loop.plant.usages()
    batch = sum(amount for uid, amount in usages.items() if uid != "prod")
    left = loop.plant.capacity - demand
    assert batch >= left - 0.1 * demand - 0.05 * 2000 - 60


@given(demands, weights, crowds, blind)
@example(1500, 1.0, 2, 0.6)
@settings(max_examples=30)
def test_constant_demand_settles_with_fewer_and_fewer_changes(
    demand: int, weight: float, crowd: int, blindness: float
) -> None:
    """Probing goes on, ever more rarely: without the growing wait it would be four changes a minute and more."""
    loop = surge(demand, weight, crowd, blindness)
    loop.run(1200)
    assert loop.changes_since(300) <= 25
    assert loop.changes_since(600) <= 15


@given(demands, fair_weights, crowds, blind, st.integers(min_value=0, max_value=30))
@settings(max_examples=60)
def test_when_prod_is_back_to_rest_every_limit_goes_back_to_its_original(
    demand: int, weight: float, crowd: int, blindness: float, surge_seconds: int
) -> None:
    loop = surge(demand, weight, crowd, blindness)
    loop.plant.originals = {"b0": 1500}
    loop.run(surge_seconds)
    loop.plant.prod_demand = 50
    loop.run(3 * 2**6 + 4 * crowd)
    assert loop.state.throttles == ()
    assert loop.plant.limits == {}


def test_after_one_surge_all_is_given_back_within_the_cool_down_and_a_few_steps() -> None:
    loop = Loop(Plant(prod_demand=1800, prod_weight=1.0, batch=greedy(4)))
    loop.run(20)
    assert loop.plant.limits
    loop.plant.prod_demand = 100
    loop.run(5)
    assert loop.plant.limits == {}
    reasons = [made.reason for _, made in loop.plans if made.kind is DecisionKind.RESTORE]
    assert reasons[-1] == "restore_complete"


def test_idle_cpu_goes_back_to_batch_although_prod_still_wants_much() -> None:
    loop = Loop(Plant(prod_demand=1900, prod_weight=1.0, batch=greedy(1)))
    loop.run(10)
    squeezed = loop.plant.limits["b0"]
    loop.plant.prod_demand = 1450  # above 0.7 of the demand at the trigger: not gone
    loop.run(10)
    assert squeezed + 200 < loop.plant.limits["b0"] < 550


def test_three_surges_in_a_row_are_each_relieved_at_once_and_each_given_back() -> None:
    loop = Loop(Plant(prod_demand=100, prod_weight=1.0, batch=greedy(2)))
    for _ in range(3):
        loop.plant.prod_demand = 1600
        loop.run(3)
        assert loop.plant.pressure() <= LINE
        loop.run(20)
        loop.plant.prod_demand = 100
        loop.run(20)
        assert loop.plant.limits == {}


def test_a_usage_waterline_holds_and_gives_back_only_below_it() -> None:
    rule = Rule("node-cpu", "node_cpu_usage_ratio", waterline=0.7)
    loop = Loop(Plant(prod_demand=900, batch=greedy(2)), policy(rule, throttle=ThrottlePolicy(excess_ratio=0.0)))
    loop.run(60)
    assert sum(loop.plant.usages().values()) == pytest.approx(1400, abs=40)
    loop.plant.prod_demand = 300
    loop.run(60)
    assert sum(loop.plant.usages().values()) == pytest.approx(1400, abs=80)
