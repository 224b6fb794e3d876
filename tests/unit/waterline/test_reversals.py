"""Reversals of limits are damped: bounded under a stationary load, while surges are answered as before."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_loop import CLOSED_LOOP, GuardLoop, at, line, under
from waterline_plant import Plant

from slackwater.decisions.reasons import Mode
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Options
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.loop.reversals import (
    Damping,
    DampingPolicy,
    after_fall,
    after_rise,
    most_reversals,
    wait_seconds,
)

HOUR = 3600
policies = st.builds(DampingPolicy, st.floats(0.5, 60), st.floats(1, 600), st.integers(0, 60))
waits = st.floats(0, 300)


@given(policies, st.lists(st.tuples(waits, st.booleans(), st.booleans()), max_size=150))
def test_whatever_the_load_does_reversals_are_bounded(
    policy: DampingPolicy, rounds: list[tuple[float, bool, bool]]
) -> None:
    """The worst load: after a reversal limits rise as soon as they may, and some time later they fall again."""
    damping, now, reversals = after_rise(Damping()), at(0), []
    for pause, gone, is_new in rounds:
        now += timedelta(seconds=pause)
        is_free = gone and damping.has_credit(policy, now)
        if damping.is_waiting(policy, now) and not is_free:
            now = damping.until(policy) or now
        damping = after_fall(after_rise(damping, is_surge=gone), policy, now, is_new_demand=is_new)
        reversals.append(now)
    for first, begin in enumerate(reversals):
        for seconds in (60, 600, HOUR):
            within = [one for one in reversals[first:] if one <= begin + timedelta(seconds=seconds)]
            assert len(within) <= most_reversals(seconds, policy)


@given(policies, st.integers(0, 100))
def test_waits_grow_up_to_the_longest(policy: DampingPolicy, level: int) -> None:
    assert wait_seconds(0, policy) == 0
    assert wait_seconds(level, policy) <= wait_seconds(level + 1, policy) <= policy.damping_most_seconds
    if level >= policy.most_level:
        assert wait_seconds(level, policy) == pytest.approx(
            min(policy.damping_most_seconds, wait_seconds(level, policy)) if level == 1 else policy.damping_most_seconds
        )


def test_the_bounds_of_the_defaults() -> None:
    assert most_reversals(HOUR, DampingPolicy(surges_per_hour=0)) == 35
    assert most_reversals(HOUR, DampingPolicy()) == 35 + 61
    assert most_reversals(24 * HOUR, DampingPolicy()) / 24 < 65
    assert [wait_seconds(level, DampingPolicy()) for level in range(6)] == [0, 15, 30, 60, 120, 120]
    assert most_reversals(HOUR, DampingPolicy(0)) == math.inf


def test_the_first_fall_is_no_reversal_and_those_for_surges_use_up_the_credit() -> None:
    policy = DampingPolicy(surges_per_hour=2)
    assert after_fall(Damping(), policy, at(0)) == Damping(fell_at=at(0))
    assert after_fall(after_rise(Damping()), policy, at(5)) == Damping(level=1, reversed_at=at(5), fell_at=at(5))
    first = after_fall(after_rise(Damping()), policy, at(5), is_new_demand=True)
    assert first == Damping(surges_until=at(1805), fell_at=at(5))
    second = after_fall(after_rise(first, is_surge=True), policy, at(10))
    assert second == Damping(surges_until=at(3605), fell_at=at(10))
    assert not second.has_credit(policy, at(1804))
    assert second.has_credit(policy, at(1805))
    assert after_fall(after_rise(second, is_surge=True), policy, at(20), is_new_demand=True).level == 1


def test_a_long_calm_lowers_the_level_and_a_clock_set_back_does_not_hold_limits() -> None:
    policy = DampingPolicy()
    assert after_fall(Damping(True, False, 4, at(0)), policy, at(250)).level == 3
    assert after_fall(Damping(True, False, 4, at(0)), policy, at(10_000)).level == 1
    assert not Damping(level=4, reversed_at=at(600)).is_waiting(policy, at(0))


def test_the_level_stays_while_limits_fall_slowly() -> None:
    """A node whose limits fall for 83 s of every 128 s kept its level for ever, and its limits swung as long."""
    policy, damping, levels = DampingPolicy(), Damping(), []
    for cycle in range(6):
        damping = after_rise(damping)
        for fall in range(12):
            damping = after_fall(damping, policy, at(128 * cycle + 7 * fall))
        levels.append(damping.level)
    assert levels == [1, 2, 3, 4, 4, 4]


@dataclass
class Noise:
    """A stationary load: every second each demand is drawn anew around its mean, within `width` of it."""

    chance: random.Random
    prod: int
    batch: int
    width: float

    def draw(self, plant: Plant) -> None:
        plant.prod_demand = self._around(self.prod)
        plant.batch = {uid: self._around(self.batch) for uid in plant.batch}

    def _around(self, mean: int) -> int:
        return round(mean * self.chance.uniform(1 - self.width, 1 + self.width))


def reversals(noise: Noise, options: Options, seconds: int = HOUR) -> int:
    """How often limits fell after they had risen."""
    loop = GuardLoop(Plant(prod_weight=1.0, batch={"b0": 1, "b1": 1}), under(*RULES), options)
    found, has_risen = 0, False
    for _ in range(seconds):
        noise.draw(loop.plant)
        plan = loop.tick().cycle.plan
        if any(step.changes for step in plan.of(ActionKind.THROTTLE)):
            found += has_risen
            has_risen = False
        if any(step.changes for step in plan.of(ActionKind.RESTORE)):
            has_risen = True
    return found


RULES = (line(), line("node_cpu_usage_ratio", "0.9", name="node-cpu"))
UNDAMPED = Options(loop=LoopPolicy(damping_seconds=0.0), mode=Mode.THROTTLE)


@pytest.mark.parametrize(
    ("prod", "batch", "width"), [(600, 500, 0.15), (900, 500, 0.3), (900, 200, 0.6), (300, 900, 0.6)]
)
def test_a_stationary_load_with_noise_does_not_make_limits_flap(prod: int, batch: int, width: float) -> None:
    found = reversals(Noise(random.Random(1), prod, batch, width), CLOSED_LOOP)
    assert found <= most_reversals(HOUR, DampingPolicy())


def test_without_damping_the_same_load_flaps() -> None:
    """What the damping is for: without it the bound does not hold."""
    assert reversals(Noise(random.Random(1), 900, 200, 0.6), UNDAMPED) > most_reversals(HOUR, DampingPolicy())
