"""A fleet that is offered nothing says why in one line, and every node is counted once."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from slackwater.offers.no_offer import NoOffer, no_offer_line, no_offer_reason

reasons = st.lists(st.sampled_from(NoOffer), min_size=1, max_size=30)


@given(reasons)
def test_every_node_is_counted_once(found: list[NoOffer]) -> None:
    line = no_offer_line(found)
    assert sum(int(count) for count in re.findall(r"(\d+) nodes?", line)) == len(found)


@given(reasons)
def test_a_fleet_with_an_offer_needs_no_reason(found: list[NoOffer]) -> None:
    assert no_offer_line([*found, None]) == ""


@given(st.booleans(), st.none() | st.integers(0, 10**6), st.none() | st.just("usage is old"), st.booleans())
def test_exactly_the_nodes_without_cpu_have_a_reason(
    fresh: bool, milli: int | None, degraded: str | None, disabled: bool
) -> None:
    reason = no_offer_reason(fresh=fresh, batch_milli=milli, degraded=degraded, disabled=disabled)
    assert (reason is None) == bool(milli)


def test_the_most_frequent_reason_is_first() -> None:
    found = [NoOffer.DEGRADED, NoOffer.NO_PREDICTION, NoOffer.NO_PREDICTION]
    assert no_offer_line(found) == (
        "no CPU is offered: 2 nodes without a prediction yet, 1 node degraded, because usage is old or missing"
    )
