"""The intervals of a seed: by the length of its history, and without a part in what else it draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world import swarm
from tests.world.pace import LONG_SECONDS, SHORT_SECONDS, SMALL_SECONDS, SPARSE_SHARE
from tests.world.plan import Plan
from tests.world.settling import has_settled
from tests.world.swarm import draw

SEEDS = range(1, 201)
LONG = 600.0


def without_pace(seed: int, seconds: float) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swarm, "paced", lambda settings, seed, seconds: settings)
        return draw(seed, seconds=seconds)


@settings(max_examples=20)
@given(st.integers(1, 10_000), st.sampled_from([SMALL_SECONDS, 150.0, LONG]))
def test_the_pace_of_a_seed_leaves_its_sizes_faults_and_changes(seed: int, seconds: float) -> None:
    plan, plain = draw(seed, seconds=seconds), without_pace(seed, seconds)
    assert replace(plan, settings=plain.settings, quiet_seconds=plain.quiet_seconds) == plain


@settings(max_examples=20)
@given(st.integers(1, 10_000), st.floats(SHORT_SECONDS, LONG_SECONDS, exclude_max=True))
def test_a_history_of_some_minutes_keeps_its_intervals(seed: int, seconds: float) -> None:
    assert draw(seed, seconds=seconds) == without_pace(seed, seconds)


def test_most_long_histories_report_seldom_and_some_often() -> None:
    intervals = [draw(seed).settings["agent"]["report_seconds"] for seed in SEEDS]
    sparse = sum(draw(seed).settings != without_pace(seed, LONG).settings for seed in SEEDS)
    assert abs(sparse / len(SEEDS) - SPARSE_SHARE) < 0.1
    assert {2.0, 5.0, 10.0, 15.0} <= set(intervals)


@settings(max_examples=20)
@given(st.integers(1, 10_000))
def test_intervals_of_a_long_history_fit_each_other(seed: int) -> None:
    """A node that reports regularly is neither stale nor silent, its windows have reports, and the world settles."""
    plan = draw(seed)
    report = plan.settings["agent"]["report_seconds"]
    assert plan.settings["agent"]["sample_seconds"] <= report
    assert plan.settings["ingestion"]["report_interval_seconds"] == report
    assert plan.settings["ingestion"]["window_seconds"] >= report
    assert plan.settings["ensurance"]["silent_seconds"] >= 2 * report
    assert plan.settings["ownership"]["ttl"] >= 3 * plan.settings["ownership"]["beat"]
    assert has_settled(plan)


@settings(max_examples=20)
@given(st.integers(1, 10_000))
def test_a_short_history_settles_sooner_and_closes_windows_in_its_faults(seed: int) -> None:
    plan, plain = draw(seed, seconds=SMALL_SECONDS), without_pace(seed, SMALL_SECONDS)
    assert plan.seconds <= plain.seconds
    assert plan.settings["ingestion"]["window_seconds"] <= plain.settings["ingestion"]["window_seconds"]
    assert has_settled(plan)
