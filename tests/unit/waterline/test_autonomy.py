"""How far a pool may go, and when it steps back by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import NOON

from slackwater.decisions.reasons import Mode
from slackwater.waterline.autonomy_record import AutonomyStep, autonomy_step_record, replay
from slackwater.waterline.policies.autonomy import (
    AutonomyPolicy,
    AutonomyState,
    effect_seen,
    evicted,
    mode_of,
    review_step_back,
)

POLICY = AutonomyPolicy(Mode.EVICT, evictions_per_hour=3, reliefs_missed=2, hold_seconds=600)


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


@given(
    st.sampled_from(list(Mode)),
    st.lists(st.tuples(st.sampled_from(["evicted", "missed", "relieved", "look"]), st.integers(0, 900)), max_size=40),
)
def test_a_pool_never_does_more_than_was_granted_and_always_comes_back(
    mode: Mode, happened: list[tuple[str, int]]
) -> None:
    policy, state, now = replace(POLICY, mode=mode), AutonomyState(), NOON
    for what, seconds in happened:
        now += at(seconds)
        match what:
            case "evicted":
                state = evicted(state, policy, now)
            case "look":
                state = review_step_back(state, policy, now)
            case _:
                state = effect_seen(state, policy, now, relieved=what == "relieved")
        allowed = mode_of(state, policy)
        assert allowed is mode or (mode is Mode.EVICT and allowed is Mode.THROTTLE)
        assert bool(state.because) == (state.stepped_back_at is not None)
        assert len(state.evictions_at) <= policy.evictions_per_hour or allowed is not Mode.EVICT
    rested = review_step_back(state, policy, now + at(3600 + policy.hold_seconds))
    assert mode_of(rested, policy) is mode


@given(st.lists(st.sampled_from(["evicted", "missed", "relieved"]), min_size=1, max_size=12), st.integers(0, 3))
def test_the_record_of_a_step_back_repeats_whatever_else_came_with_the_same_report(
    happened: list[str], earlier: int
) -> None:
    before = state = AutonomyState(evictions_at=(NOON - at(60),) * earlier)
    for what in happened:
        if what == "evicted":
            state = evicted(state, POLICY, NOON)
        else:
            state = effect_seen(state, POLICY, NOON, relieved=what == "relieved")
    step = AutonomyStep("pool", before, state, POLICY, NOON, "n", "autonomy/pool")
    record = autonomy_step_record("id", step)
    assert (record is not None) == (state.stepped_back_at is not None)
    if record is not None:
        assert record.replay is not None
        again = replay(**record.replay.arguments)
        assert again == {"mode": record.mode, "because": record.alternatives[0].rejected_because}
        assert record.alternatives[0].rejected_because.startswith(f"{record.result} ")


def test_too_many_evictions_within_an_hour_step_back() -> None:
    state = AutonomyState()
    for number in range(4):
        assert mode_of(state, POLICY) is Mode.EVICT
        state = evicted(state, POLICY, NOON + at(number * 60))
    assert mode_of(state, POLICY) is Mode.THROTTLE
    assert state.because == "4 evictions within an hour; allowed: 3"
    assert mode_of(review_step_back(state, POLICY, NOON + at(180 + 599)), POLICY) is Mode.THROTTLE
    still = review_step_back(state, POLICY, NOON + at(180 + 600))
    assert mode_of(still, POLICY) is Mode.THROTTLE, "four within the hour are still too many"
    assert mode_of(review_step_back(still, POLICY, NOON + at(3600 + 600)), POLICY) is Mode.EVICT


def test_evictions_that_bring_no_relief_step_back_and_one_that_does_starts_anew() -> None:
    once = effect_seen(AutonomyState(), POLICY, NOON, relieved=False)
    helped = effect_seen(once, POLICY, NOON, relieved=True)
    assert mode_of(effect_seen(helped, POLICY, NOON, relieved=False), POLICY) is Mode.EVICT
    twice = effect_seen(once, POLICY, NOON, relieved=False)
    assert mode_of(twice, POLICY) is Mode.THROTTLE
    assert mode_of(review_step_back(twice, POLICY, NOON + at(600)), POLICY) is Mode.EVICT


def test_a_change_by_an_operator_starts_the_guards_anew() -> None:
    back = effect_seen(effect_seen(AutonomyState(), POLICY, NOON, relieved=False), POLICY, NOON, relieved=False)
    looked = review_step_back(back, replace(POLICY, generation=1), NOON)
    assert mode_of(looked, POLICY) is Mode.EVICT
    assert looked.generation == 1
