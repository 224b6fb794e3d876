"""The arithmetic of the figure `kubernetes`: when an offer was shown, and whether evictions were decided in order."""

from __future__ import annotations

from tests.bench.freshness import Seen
from tests.bench.kubernetes import Lent, out_of_order

from slackwater.apiserver.records import PodRecord, parse_pod


def seen_of(*published: float) -> Seen:
    """Offers 1, 2, … of node `n`, published then."""
    seen = Seen()
    for generation, at in enumerate(published, 1):
        seen.offers[f"e{generation}"] = ("n", generation)
        seen.published[f"e{generation}"] = at
    return seen


def test_an_offer_is_shown_when_its_amounts_are_and_not_by_the_same_amounts_before() -> None:
    lent = Lent(offered={"n": [(1, 10, 1), (2, 20, 2), (3, 10, 1)]})
    lent.shown["n"] = [(101.0, 10, 1), (202.0, 20, 2), (303.0, 10, 1)]
    seen = seen_of(100.0, 200.0, 300.0)
    assert lent.settle(seen) == 0
    assert [seen.readable["n", generation] for generation in (1, 2, 3)] == [101.0, 202.0, 303.0]


def test_an_offer_of_the_same_amounts_is_left_out_and_one_that_was_overtaken_is_read_with_the_next() -> None:
    lent = Lent(offered={"n": [(1, 10, 1), (2, 10, 1), (3, 30, 3), (4, 40, 4)]})
    lent.shown["n"] = [(101.0, 10, 1), (404.0, 40, 4)]
    seen = seen_of(100.0, 200.0, 300.0, 400.0)
    assert lent.settle(seen) == 1
    assert ("n", 2) not in seen.offers.values()
    assert seen.read_at(("n", 3)) == 404.0


def pods_of(*priorities: int) -> dict[str, PodRecord]:
    return {
        f"u{number}": parse_pod(
            {"metadata": {"name": f"p{number}", "uid": f"u{number}"}, "spec": {"priority": priority}}
        )
        for number, priority in enumerate(priorities)
    }


def test_decisions_of_a_node_are_in_order_while_priorities_do_not_fall() -> None:
    pods = pods_of(5_100, 5_100, 5_900)
    assert out_of_order({"n": ["u0", "u1", "u2"], "m": ["u0"]}, pods) == 0
    assert out_of_order({"n": ["u0", "u2", "u1"]}, pods) == 1
