"""How figures and waterlines of policies are written, on the page and on the terminal."""

from __future__ import annotations

import pytest

from slackwater.cli import simulated_policies
from slackwater.simulation.edge import policy_page
from slackwater.simulation.edge.policy_report import TimeAbove


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (str(16_384 * 2**30), "bytes", "16384 GiB"),
        (str(16_380 * 2**30), "bytes", "16380 GiB"),
        (str(3 * 2**29), "bytes", "1.5 GiB"),
        ("12345678", "milli-cores", "12345.678 cores"),
        ("123456789", "", "123456789"),
        ("0.7", "ratio", "70 %"),
    ],
)
def test_a_waterline_is_written_whole_so_that_two_never_look_alike(value: str, unit: str, said: str) -> None:
    above = TimeAbove(
        metric="m", value=value, unit=unit, nodes=1, seconds=0, share=0, episodes=0, longest_episode_seconds=0
    )
    assert policy_page.waterline(above) == said
    assert simulated_policies.waterline(above.model_dump()).replace("%", " %") == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (0.004, "0.00"), (-0.004, "0.00"), (0.02, "+0.02"), (-3.0, "-3"), (250.0, "+250")]
)
def test_a_difference_has_a_sign_unless_it_is_shown_as_nothing(value: float, said: str) -> None:
    assert policy_page.signed(value) == said
