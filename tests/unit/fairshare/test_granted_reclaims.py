"""Where the end of claims has to be granted, no other claim that has started is told to end, and orders stay whole."""

from __future__ import annotations

from dataclasses import replace

from drawn_snapshots import snapshots
from hypothesis import given, settings
from hypothesis import strategies as st
from test_arbitration import NOW_S

from slackwater.fairshare.arbitration import arbitrate
from slackwater.fairshare.arbitration_plan import QuotaSnapshot, WaitReason
from slackwater.fairshare.claims import ReclaimReason


@settings(max_examples=50)
@given(snapshots(), st.data())
def test_only_what_is_granted_has_to_end_and_an_order_as_a_whole(snapshot: QuotaSnapshot, data: st.DataObject) -> None:
    started = sorted(claim.id for claim in snapshot.claims if claim.started_s is not None and claim.holds)
    granted = frozenset(data.draw(st.lists(st.sampled_from(started), unique=True)) if started else ())
    plan = arbitrate(replace(snapshot, granted=granted, evictions_allowed={}), NOW_S)
    assert {each.victim for each in plan.reclaims}.intersection(started) <= granted
    orders: dict[str, set[str]] = {}
    for each in plan.ungranted:
        orders.setdefault(each.for_claim or each.victim, set()).add(each.victim)
    told = {each.for_claim for each in plan.reclaims if each.reason is not ReclaimReason.POOL_SHRUNK}
    assert not told & orders.keys(), "no part of an order"
    for victims in orders.values():
        assert victims.intersection(started) - granted, "what is granted is ordered"
    for place in plan.places:
        if place.reason is WaitReason.BUDGET:
            assert place.claim in orders
    refused = frozenset(data.draw(st.lists(st.sampled_from(started), unique=True)) if started else ()) - granted
    told_apart = arbitrate(replace(snapshot, granted=granted, refused=refused, evictions_allowed={}), NOW_S)
    assert told_apart.ungranted == plan.ungranted
    for before, place in zip(plan.places, told_apart.places, strict=True):
        is_open = before.reason is WaitReason.BUDGET and not orders[place.claim] & refused
        assert place.reason is (WaitReason.GRANT if is_open else before.reason)


@settings(max_examples=50)
@given(snapshots())
def test_with_all_granted_the_plan_is_that_without_a_bound(snapshot: QuotaSnapshot) -> None:
    everything = frozenset(claim.id for claim in snapshot.claims)
    assert arbitrate(replace(snapshot, granted=everything), NOW_S) == arbitrate(snapshot, NOW_S)
    assert not arbitrate(snapshot, NOW_S).ungranted
