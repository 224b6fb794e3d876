"""What is advised of several ways to lend, and why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.simulation.domain.risk import LONGEST_MINUTES, Choice, RatedChoice, advise


def judged(percent: int, reclaimable: float, exceeded: float = 0.0, longest: float = 0.0) -> RatedChoice:
    return RatedChoice(
        Choice(percent, "m"), reclaimable, 100 * reclaimable, 0.01, 0.001, exceeded, exceeded * 1e4, longest, 1.0
    )


def test_the_one_that_lends_most_within_the_accepted_risk_and_what_the_next_would_cost() -> None:
    ways = [judged(60, 0.2), judged(80, 0.4, 0.0005, 5.0), judged(100, 0.6, 0.02, 30.0)]
    advice = advise(ways, 0.001)
    assert advice is not None
    assert advice.choice.percent == 80
    assert "40.0% of the capacity could be lent" in advice.reason
    assert "in 0.050% of its minutes, at most 5 minutes without a break" in advice.reason
    assert "100 %, m lends 20.0 points more, but beyond a node's capacity in 2.000%" in advice.reason


def test_a_long_episode_is_too_much_however_rare() -> None:
    advice = advise([judged(60, 0.2), judged(80, 0.4, 0.0001, LONGEST_MINUTES + 5)], 0.001)
    assert advice is not None
    assert advice.choice.percent == 60


def test_where_nothing_is_within_the_risk_nothing_is_advised() -> None:
    assert advise([judged(60, 0.2, 0.5, 5.0)], 0.001) is None


def test_a_short_history_advises_the_usual_way_whatever_a_bolder_one_did() -> None:
    advice = advise([judged(60, 0.2), judged(100, 0.9)], 0.001, cautious="2.0 days are too short")
    assert advice is not None
    assert advice.choice.percent == 60
    assert advice.reason == "2.0 days are too short; start with the default and assess again later"


way = st.builds(judged, st.integers(0, 120), st.floats(0, 1), st.floats(0, 0.01), st.floats(0, 60))
ways = st.lists(way, min_size=1, max_size=8, unique_by=lambda one: one.choice.percent)


@given(ways, st.floats(0, 0.01))
def test_the_advised_way_is_within_the_risk_and_no_other_within_it_lends_more(
    found: list[RatedChoice], most: float
) -> None:
    advice = advise(found, most)
    within = [one for one in found if one.within(most) and (one is found[0] or one.choice.percent <= 100)]
    if advice is None:
        assert within == []
    else:
        (chosen,) = [one for one in within if one.choice == advice.choice]
        assert chosen.reclaimable_share == max(one.reclaimable_share for one in within)


@given(ways, st.floats(0, 0.01), st.floats(0, 0.01))
def test_a_higher_accepted_risk_never_lowers_the_advice(found: list[RatedChoice], one: float, other: float) -> None:
    def lent(accepted: float) -> float:
        advice = advise(found, accepted)
        return -1.0 if advice is None else next(way.reclaimable_share for way in found if way.choice == advice.choice)

    assert lent(min(one, other)) <= lent(max(one, other))
