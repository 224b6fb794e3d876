"""Throttles that do not help are undone, exactly, and their rule waits; those that help stay."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_loop import CLOSED_LOOP, GuardLoop, at, line, under
from waterline_plant import Plant

from slackwater.decisions.reasons import Reason
from slackwater.waterline import cycle_replay
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import record_of
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.loop.usefulness import (
    RuleEffect,
    UsefulnessPolicy,
    backoff_seconds,
    comparable,
    is_useless,
    relief,
)
from slackwater.waterline.node_guard import GuardResult, described_anew, under_new_rules
from slackwater.waterline.rulebook import Rulebook

POLICY = UsefulnessPolicy()
readings = st.floats(0, 1)
reliefs = st.lists(st.floats(-1, 1), max_size=6)


@dataclass
class DeafPlant(Plant):
    """Prod waits for something else than the CPU of lower tiers, so no limit changes its pressure."""

    level: float = 0.3
    noise: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def pressure(self) -> float:
        return max(0.0, min(1.0, self.level + self.random.uniform(-self.noise, self.noise)))


def deaf(**fields: Any) -> GuardLoop:
    return GuardLoop(DeafPlant(prod_demand=600, batch={"b0": 2000, "b1": 2000}, originals={"b1": 1500}, **fields))


def undoing(loop: GuardLoop) -> list[tuple[float, GuardResult]]:
    return [(when, made) for when, made in loop.done if made.cycle.undone]


def throttled(loop: GuardLoop) -> list[float]:
    return [when for when, made in loop.done if made.cycle.plan.of(ActionKind.THROTTLE)]


def test_limits_without_effect_go_back_to_the_originals_and_the_rule_backs_off() -> None:
    loop = deaf()
    loop.tick()
    assert loop.plant.limits, "the first throttle is the trial"
    loop.run(3)
    ((when, made),) = undoing(loop)
    assert loop.plant.limits == {}
    back = {one.uid: one.changes[0].after_us for one in made.cycle.plan.of(ActionKind.RESTORE)}
    assert back.items() <= {"b0": None, "b1": 150_000}.items()
    loop.run(59)
    assert not [one for one in throttled(loop) if one >= when]


def test_the_wait_doubles_each_time() -> None:
    loop = deaf()
    loop.run(500)
    times = [when for when, _ in undoing(loop)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) >= 2
    assert 60 <= gaps[0] <= 66
    assert 120 <= gaps[1] <= 126


def test_the_record_says_so_and_replays() -> None:
    loop = deaf()
    loop.run(3)
    before, seen = loop.state, loop.view()
    made = loop.tick()
    (plan,) = made.cycle.recorded
    rules = Rulebook("nodeqos/default@1", loop.policies)
    seen = replace(seen, sampled_at=at(loop.at))
    source = DecisionContext("n1", 2000, before, rules, loop.options, at(loop.at), seen)
    record = record_of("d1", plan, made.cycle, source)
    inputs = {one.name: one.value for one in record.inputs}
    assert (record.reason, record.rule) == (Reason.RESTORE_WITHOUT_EFFECT, "prod-cpu")
    assert inputs["relief of prod-cpu"] == 0
    assert inputs["needed of prod-cpu"] == 0.25
    assert inputs["no limits by prod-cpu for"] == 60
    assert record.replay is not None
    steps = cycle_replay.replay(**record.replay.arguments)["steps"]
    assert sorted(one["uid"] for one in steps) == sorted(one.pod_uid for one in record.actions)


@settings(max_examples=3, deadline=None)
@given(st.floats(0.2, 0.8), st.floats(0, 0.02), st.integers(0, 2**32))
def test_a_waterline_that_protects_nothing_costs_batch_four_percent_of_its_first_quarter_hour_at_most(
    level: float, noise: float, seed: int
) -> None:
    plant = DeafPlant(prod_demand=600, batch={"b0": 2000}, level=level, noise=noise, random=random.Random(seed))
    loop = GuardLoop(plant)
    loop.run(900)
    assert sum(1 for _, made in loop.done if made.state.throttles) <= 0.04 * 900
    assert undoing(loop)


@settings(max_examples=8, deadline=None)
@given(st.integers(1200, 2000), st.floats(1, 20), st.integers(1, 6))
def test_limits_that_relieve_prod_are_never_undone(demand: int, weight: float, crowd: int) -> None:
    loop = GuardLoop(Plant(prod_demand=demand, prod_weight=weight, batch={f"b{n}": 10_000 for n in range(crowd)}))
    loop.run(100)
    assert not undoing(loop)


def test_a_throttle_that_helps_stays() -> None:
    loop = GuardLoop(Plant(prod_demand=1500, prod_weight=1.0, batch={"b0": 2000}))
    loop.run(60)
    assert not undoing(loop)
    assert loop.plant.limits


def test_always_keeps_limits_whatever_they_bring() -> None:
    loop = deaf()
    loop.options = replace(CLOSED_LOOP, loop=LoopPolicy(quota="always"))
    loop.run(60)
    assert not undoing(loop)
    assert loop.plant.limits


@pytest.mark.parametrize("change", ["pods", "demand", "rules", "description"])
def test_another_picture_ends_the_wait(change: str) -> None:
    loop = deaf()
    loop.run(5)
    assert len(throttled(loop)) >= 1
    since = loop.at
    if change == "pods":
        loop.plant.batch["b2"] = 500
    elif change == "demand":
        loop.plant.prod_demand = 1500
    elif change == "rules":
        loop.state, loop.policies = under_new_rules(loop.state), under(line(waterline="0.12"))
    else:
        loop.state = described_anew(loop.state)
    loop.run(3)
    assert any(when > since for when in throttled(loop))


def test_nothing_is_judged_while_the_demand_of_prod_is_another() -> None:
    loop = deaf()
    for second in range(40):
        loop.plant.prod_demand = 300 if second % 2 else 1200
        loop.tick()
    assert not undoing(loop)


@given(readings, readings, readings)
def test_relief_is_a_share_and_falls_as_the_reading_rises(before: float, after: float, target: float) -> None:
    found = relief(before, after, target)
    assert -1 <= found <= 1
    assert relief(before, min(1.0, after + 0.1), target) <= found
    assert before <= target or relief(before, target, target) == 1
    assert relief(before, before, target) == 0


@given(reliefs, reliefs)
def test_more_relief_never_makes_throttles_useless(limited: list[float], free: list[float]) -> None:
    if not is_useless(limited, free, POLICY):
        assert not is_useless([*limited[:-1], 1.0] if limited else [], [], POLICY)
    assert not is_useless(limited[:2], free, POLICY)


@given(st.integers(1, 10_000))
def test_the_backoff_doubles_up_to_its_bound(undone: int) -> None:
    found = backoff_seconds(undone, POLICY)
    assert 60 <= found <= 3600
    assert backoff_seconds(undone + 1, POLICY) == min(3600, 2 * found)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_comparable_is_symmetric(one: int, other: int) -> None:
    assert comparable(one, other) is comparable(other, one)
    assert comparable(one, one)


def test_a_suspension_ends_by_itself() -> None:
    effect = RuleEffect("default.prod-cpu", until=at(60))
    assert effect.is_suspended(at(59))
    assert not effect.is_suspended(at(60))
    assert not effect.is_suspended(at(60) + timedelta(hours=1))
    assert Options(loop=LoopPolicy()).loop is not None


def test_limits_that_help_one_rule_are_not_undone_for_another_that_they_do_not_help() -> None:
    """The first rule would set them again with its next sample, and so on (world seed 5)."""
    rules = under(line(cool_down_seconds=0.0), line("node_cpu_usage", "10", name="always"))
    loop = GuardLoop(Plant(prod_demand=1500, prod_weight=1.0, batch={"b0": 2000}), rules)
    loop.run(60)
    assert any("always" in one.rule and one.undone for one in loop.state.cycle.loop.effects)
    assert not undoing(loop)
    assert loop.plant.limits
