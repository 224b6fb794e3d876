"""Which scenes a run shows, from its seconds: they fit, in their order, and what does not fit says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cli.up import SceneChoice
from slackwater.demo import schedule
from slackwater.demo.scenes import catalog


@given(st.integers(1, 1000))
def test_the_scenes_of_a_run_fit_into_its_seconds(seconds: int) -> None:
    planned = schedule.plan(catalog.chosen(catalog.ALL), seconds)
    assert sum(one.seconds for one in planned) <= max(0.0, seconds - schedule.STOP_SECONDS)
    for one in planned:
        assert bool(one.skipped) is (one.turns == 0)
        assert f"SECONDS={seconds}" in one.skipped or one.turns >= 1


@given(st.sampled_from(catalog.SCENES), st.integers(1, 1000))
def test_a_scene_alone_repeats_its_turns_as_time_allows_and_not_without_end(scene: object, seconds: int) -> None:
    (one,) = schedule.plan([scene], seconds)  # type: ignore[list-item]
    assert one.seconds <= max(0.0, seconds - schedule.STOP_SECONDS)
    assert one.turns <= schedule.MOST_TIMES_TURNS * one.scene.turns
    if one.turns and one.turns < schedule.MOST_TIMES_TURNS * one.scene.turns:
        assert one.scene.seconds(one.turns + 1) > seconds - schedule.STOP_SECONDS


def test_five_scenes_run_by_default_and_take_two_minutes() -> None:
    planned = schedule.plan(catalog.chosen(catalog.ALL), None)
    assert [one.scene.name for one in planned] == ["lend", "memory", "cache", "cpu", "quotas"]
    assert sum(one.seconds for one in planned) <= 120


@pytest.mark.parametrize(("seconds", "shown"), [(15, 0), (20, 1), (45, 2), (90, 4), (125, 5)])
def test_a_short_run_shows_fewer_scenes(seconds: int, shown: int) -> None:
    planned = schedule.plan(catalog.chosen(catalog.ALL), seconds)
    assert sum(not one.skipped for one in planned) == shown


def test_the_command_line_offers_every_scene_by_its_name() -> None:
    assert [choice.value for choice in SceneChoice] == [catalog.ALL, *(scene.name for scene in catalog.SCENES)]
    for scene in catalog.SCENES:
        assert catalog.chosen(scene.name) == [scene]
