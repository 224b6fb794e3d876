"""What is used of an offer is never more than the offer; the rest is a figure of its own, with the pods that use it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import BorrowerUse, LentUse, lent_use, pods_beyond

amounts = st.builds(Resources, st.integers(0, 10**6), st.integers(0, 2**40))
tiers = st.dictionaries(st.sampled_from(["prod", "mid", "batch", "free"]), amounts)
nodes = st.lists(st.tuples(st.none() | amounts, tiers), max_size=6)
pods = st.lists(st.builds(BorrowerUse, st.uuids().map(str), amounts, amounts), max_size=8)


@given(nodes)
def test_the_fleet_never_borrows_more_than_is_lent_and_nothing_is_lost(
    fleet: list[tuple[Resources | None, dict[str, Resources]]],
) -> None:
    total = sum((lent_use(*node) for node in fleet), LentUse())
    used = [usage.get(name, Resources()) for _, usage in fleet for name in ("batch", "free")]
    assert total.borrowed == total.borrowed.smaller_of(total.lent)
    assert total.borrowed + total.beyond == sum(used, Resources())
    assert total.lent == sum((offer or Resources() for offer, _ in fleet), Resources())


def test_what_one_node_leaves_unused_does_not_cover_another() -> None:
    idle = lent_use(Resources(8000, 0), {})
    busy = lent_use(Resources(1000, 0), {"batch": Resources(2500, 0), "free": Resources(500, 0)})
    assert (idle + busy).borrowed.cpu_milli == 1000
    assert (idle + busy).beyond.cpu_milli == 2000


def test_a_node_without_an_offer_lends_nothing() -> None:
    assert lent_use(None, {"batch": Resources(300, 7)}) == LentUse(beyond=Resources(300, 7))


@given(pods, st.integers(0, 100))
def test_the_named_pods_cover_what_is_beyond(found: list[BorrowerUse], percent: int) -> None:
    used = sum((pod.usage for pod in found), Resources())
    beyond = Resources(used.cpu_milli * percent // 100, used.memory_bytes * percent // 100)
    named = pods_beyond(beyond, found)
    covered = sum((pod.usage for pod in found if pod.name in named), Resources())
    assert covered.larger_of(beyond) == covered
    assert bool(named) == (beyond != Resources())


def test_the_pod_furthest_above_its_request_is_named_first() -> None:
    modest = BorrowerUse("modest", Resources(2000, 0), Resources(2100, 0))
    greedy = BorrowerUse("greedy", Resources(500, 0), Resources(3000, 0))
    assert pods_beyond(Resources(1000, 0), [modest, greedy]) == ("greedy",)
