"""Which scene `slackwater up --demo` runs."""

import pytest
import typer

from slackwater.cli.up import SceneChoice, choose_scene


@pytest.mark.parametrize(
    ("argument", "option", "chosen"),
    [
        (None, None, SceneChoice.ALL),
        (SceneChoice.MOVES, None, SceneChoice.MOVES),
        (None, SceneChoice.MOVES, SceneChoice.MOVES),
        (SceneChoice.MOVES, SceneChoice.MOVES, SceneChoice.MOVES),
    ],
)
def test_a_scene_is_named_by_argument_or_option(
    argument: SceneChoice | None, option: SceneChoice | None, chosen: SceneChoice
) -> None:
    assert choose_scene(True, argument, option) is chosen


def test_two_scenes_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="lend and moves"):
        choose_scene(True, SceneChoice.MOVES, SceneChoice.LEND)


def test_a_scene_without_the_demo_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="slackwater up --demo moves"):
        choose_scene(False, SceneChoice.MOVES, None)


def test_without_the_demo_no_scene_runs() -> None:
    assert choose_scene(False, None, None) is None
