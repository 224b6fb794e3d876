"""What surges cost batch over many of them: no single second decides, and nothing is left behind by chance."""

from __future__ import annotations

import pytest
from surges_at_random import COMPARED, FULL, Scene, surges


@pytest.mark.parametrize(
    ("scene", "seconds", "count"), [(FULL, 6.0, 40), (FULL, 20.0, 12), (FULL, 60.0, 4), (COMPARED, 12.0, 20)]
)
def test_batch_loses_little_more_than_was_needed_however_long_a_surge_lasts(
    scene: Scene, seconds: float, count: int
) -> None:
    """Issue 6: no more than 15 % above. While one sample decided alone, surges of 20 s cost 67 to 74 % above."""
    found = [one for seed in (1, 2, 3) for one in surges(count, seconds, seed, scene)[0]]
    needed, lost = sum(one.needed for one in found), sum(one.lost for one in found)
    assert 0.9 < lost / needed <= 1.15


def test_surges_are_below_the_waterline_soon_after_they_began() -> None:
    found, _ = surges(40, 6.0, 5)
    below = sorted(one.seconds_to_below for one in found if one.crossed and one.seconds_to_below is not None)
    assert len(below) == sum(one.crossed for one in found) > 35, "none lasts as long as its demand"
    assert below[len(below) // 2] <= 1.0, "one cut is enough for most"


def test_waits_that_a_relapse_made_longer_are_short_again_some_surges_later() -> None:
    _, watched = surges(60, 6.0, 6)
    assert watched.state.cycle.loop.backoff <= 1
    assert watched.state.throttles == ()
