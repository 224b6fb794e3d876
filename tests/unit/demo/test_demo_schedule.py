"""Which scenes a run of limited time shows: never more than its time, and no scene twice before another once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.scene import DemoScene
from slackwater.demo.scenes.catalog import ALL, SCENES, chosen
from slackwater.demo.schedule import MOST_ROUNDS, STOP_SECONDS, PlannedScene, plan


@given(st.integers(1, 1000), st.booleans())
def test_a_plan_keeps_to_its_time_and_gives_a_reason_for_every_scene_that_is_left_out(
    seconds: int, alone: bool
) -> None:
    scenes = chosen("lend" if alone else ALL)
    planned = plan(scenes, seconds)
    assert [scene.scene for scene in planned] == scenes
    assert sum(scene.seconds for scene in planned) <= max(0.0, seconds - STOP_SECONDS)
    assert all(bool(scene.rounds) != bool(scene.left_out) for scene in planned)
    if not alone:
        left = seconds - STOP_SECONDS - sum(scene.seconds for scene in planned)
        assert all(scene.rounds or scene.scene.seconds(1) > left for scene in planned)


def test_ninety_seconds_show_four_scenes_and_no_limit_shows_all() -> None:
    shown = [scene.scene.name for scene in plan(chosen(ALL), 90) if scene.rounds]
    assert shown == ["lend", "memory", "cache", "quotas"]
    assert [scene.rounds for scene in plan(chosen(ALL), None)] == [scene.rounds for scene in chosen(ALL)]


def test_a_scene_alone_repeats_its_turns_until_its_word_can_be_told() -> None:
    [lend] = plan(chosen("lend"), 60)
    assert lend.rounds >= 3


@given(st.sampled_from(SCENES), st.integers(1, MOST_ROUNDS), st.floats(-10, 300), st.integers(1, 3))
def test_a_further_round_leaves_later_scenes_their_time(
    scene: DemoScene[Any], taken: int, left: float, rounds: int
) -> None:
    later = [PlannedScene(SCENES[0], 2), PlannedScene(SCENES[1], 0, "no time")]
    spare = left - scene.round_seconds
    kept = SCENES[0].seconds(1 if taken < rounds else 2)
    assert PlannedScene(scene, rounds).goes_on(taken, left, later) == (taken < MOST_ROUNDS and spare >= kept)
    assert PlannedScene(scene, rounds).goes_on(taken, None, later) == (taken < rounds)


def test_moves_run_only_by_name_and_a_simulated_fleet_has_a_scene_of_its_own() -> None:
    assert "moves" not in [scene.name for scene in chosen(ALL)]
    assert [scene.name for scene in chosen("moves")] == ["moves"]
    assert [scene.name for scene in chosen("lend", "simulated")] == ["lend", "fleet"]
