from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.tiers import DEFAULT_PRIORITY, PRIORITY_RANGES, QoSClass, Tier, default_qos, tier_of_priority


@pytest.mark.parametrize(
    ("priority", "tier"),
    [
        (9999, Tier.PROD), (9000, Tier.PROD), (8999, None), (7999, Tier.MID), (7000, Tier.MID),
        (6000, None), (5999, Tier.BATCH), (5000, Tier.BATCH), (3999, Tier.FREE), (3000, Tier.FREE), (0, None),
    ],
)  # fmt: skip
def test_priority_ranges_have_hard_edges(priority: int, tier: Tier | None) -> None:
    assert tier_of_priority(priority) == tier


@given(st.integers(min_value=-(10**6), max_value=10**6))
def test_a_priority_belongs_to_at_most_one_tier(priority: int) -> None:
    assert sum(priority in span for span in PRIORITY_RANGES.values()) <= 1


@pytest.mark.parametrize("tier", list(Tier))
def test_the_default_priority_of_a_tier_lies_in_it(tier: Tier) -> None:
    assert tier_of_priority(DEFAULT_PRIORITY[tier]) is tier


def test_lower_tiers_default_to_best_effort_and_higher_ones_share() -> None:
    assert {tier: default_qos(tier) for tier in Tier} == {
        Tier.PROD: QoSClass.LS,
        Tier.MID: QoSClass.LS,
        Tier.BATCH: QoSClass.BE,
        Tier.FREE: QoSClass.BE,
    }
