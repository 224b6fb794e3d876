"""What an episode did: all of its steps, told apart from what was only recorded."""

from __future__ import annotations

import pytest

from slackwater.decisions.effects import PodEffect, Standing, StepEffect, effect_of, pods_text

THROTTLED = StepEffect(
    "throttle", "evict", "throttle_waterline_crossed", [PodEffect("1", "a", 500), PodEffect("2", "b", 800)]
)
EVICTED = StepEffect("evict", "evict", "evict_waterline_crossed", [PodEffect("2", "b", 300, evicted=True)])
RESTORED = StepEffect("restore", "evict", "restore_complete", [PodEffect("1", "a", -500)])
NOTHING = StepEffect("throttle", "evict", "throttle_waterline_crossed")
WEIGHTS = StepEffect("throttle", "throttle", "throttle_left_to_weights", [PodEffect("1", "a", 468)])
OBSERVED = StepEffect("evict", "observe", "evict_observed_only", [PodEffect("1", "a", 468, evicted=True)])
MEMORY = StepEffect("throttle", "throttle", "throttle_waterline_crossed", [PodEffect("1", "a", 0, 2**30)])


def test_an_episode_is_its_whole_effect_and_not_its_last_step() -> None:
    effect = effect_of([NOTHING, EVICTED, THROTTLED])
    assert (effect.standing, effect.cpu_milli) == (Standing.CARRIED_OUT, 1300)
    assert (effect.evicted, effect.pods) == (("b",), ("b", "a"))
    assert effect.text == "evicted 1 pod, took 1.3 cores"


def test_what_was_given_back_is_said_and_not_subtracted() -> None:
    effect = effect_of([RESTORED, THROTTLED])
    assert effect.text == "took 1.3 cores, gave all back"


@pytest.mark.parametrize(
    ("steps", "standing", "text"),
    [
        ([NOTHING], Standing.NOTHING, ""),
        ([WEIGHTS], Standing.TO_WEIGHTS, "left to CPU weights; limits would take 468m cores"),
        ([OBSERVED], Standing.DRY_RUN, "would have evicted 1 pod"),
        ([MEMORY], Standing.CARRIED_OUT, "took 1Gi"),
        ([WEIGHTS, MEMORY], Standing.CARRIED_OUT, "took 1Gi"),
        (
            [StepEffect("throttle", "observe", "throttle_observed_only", [PodEffect("1", "a", 1000)])],
            "dry run",
            "would",
        ),
        ([StepEffect("offer", None, "offer_changed")], Standing.CARRIED_OUT, ""),
    ],
)
def test_dry_runs_weights_and_nothing_are_told_apart(steps: list[StepEffect], standing: str, text: str) -> None:
    effect = effect_of(steps)
    assert effect.standing == standing
    assert effect.text == text or (text == "would" and effect.text == "would have taken 1 cores")


def test_a_list_names_two_pods_and_counts_the_rest() -> None:
    assert [pods_text([]), pods_text(["a", "b"]), pods_text(["a", "b", "c"])] == ["", "a, b", "a, b and 1 more"]
