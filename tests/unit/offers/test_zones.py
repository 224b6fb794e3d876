"""Offers per NUMA zone: shares of the node, never more together than the node, and gone when the node's is gone."""

from __future__ import annotations

from dataclasses import replace

from drawn import resources, snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.batch import batch_offer
from slackwater.offers.degradation import remaining_share
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput, Zone
from slackwater.offers.strategy import Strategy
from slackwater.offers.zones import NumaZoneOffer, after_gate, divide, split, within, zone_offers

ZONES = tuple(Zone(name, Resources(5000, 5000)) for name in ("node-0", "node-1"))
TRUSTING = Strategy(cold_start_holds_request=False)


def offers(node: NodeSnapshot, mid: Resources | None = None) -> list[Resources]:
    whole = batch_offer(node, TRUSTING)
    published = Resources(whole.cpu.offered, whole.memory.offered)
    return [zone.batch for zone in zone_offers(node, TRUSTING, published, mid)]


def node(*pods: PodInput, **others: object) -> NodeSnapshot:
    plain = NodeSnapshot(Resources(10_000, 10_000), Resources(), pods, Resources(200, 200), zones=ZONES)
    return replace(plain, **others)  # type: ignore[arg-type] # fields by name


def pod(*numa: int, usage: int = 1000) -> PodInput:
    return PodInput("u", "prod", "LS", Resources(usage, usage), Resources(usage, usage), numa=numa)


def test_a_pod_counts_on_the_zones_it_was_given_and_the_rest_on_all() -> None:
    assert offers(node(pod(0))) == [Resources(3000 - 100 - 1000, 3250 - 100 - 1000), Resources(2900, 3150)]
    assert offers(node(pod(0, 1))) == offers(node(pod())) == [Resources(2400, 2650)] * 2
    assert offers(node(pod(7))) == offers(node(pod()))
    assert offers(node(host_apps=(HostApp("a", "prod", Resources(500, 500)),))) == [Resources(2650, 2900)] * 2
    assert offers(node(reserved=Resources(1000, 1000))) == [Resources(2500, 2750)] * 2


def test_what_mid_was_offered_is_taken_from_every_zone() -> None:
    assert offers(node(), Resources(1000, 0)) == [Resources(2400, 3150)] * 2


def test_what_the_strategy_keeps_is_kept_in_equal_parts() -> None:
    keeping = replace(TRUSTING, reserved=Resources(1000, 2000))
    found = zone_offers(node(), keeping, Resources(10_000, 10_000))
    assert [zone.batch for zone in found] == [Resources(3000 - 500, 3250 - 1000)] * 2


def test_on_a_zone_each_pod_has_its_own_part_and_the_common_peak_of_all_of_prod_does_not_count_again() -> None:
    two = [replace(pod(usage=100), predicted=Resources(1000, 1000)) for _ in range(2)]
    assert offers(node(*two, prod_peak=Resources(1500, 1500))) == [Resources(3000 - 100 - 1000, 3250 - 100 - 1000)] * 2


def test_zones_give_in_proportion_when_the_node_offers_less_and_all_when_it_offers_nothing() -> None:
    assert within([3000, 1000], 2000) == [1500, 500]
    assert within([3, 3, 3], 8) == [2, 2, 2]
    cleared = zone_offers(node(), TRUSTING, Resources())
    assert [zone.batch for zone in cleared] == [Resources()] * 2


def test_shares_are_rounded_up_and_of_no_parts_is_the_whole() -> None:
    assert divide(Resources(2000, 6 * 2**30), 3) == Resources(667, 2 * 2**30)
    assert divide(Resources(5, 7), 0) == Resources(5, 7)
    assert split(Resources(4000, 8), 4, (1, 3)) == (Resources(), Resources(2000, 4)) * 2
    assert split(Resources(1, 1), 0) == ()


def test_a_zone_keeps_its_value_while_the_difference_is_small_and_a_new_zone_is_published_at_once() -> None:
    computed = [NumaZoneOffer("a", Resources(1050, 500)), NumaZoneOffer("b", Resources(7, 7))]
    told = after_gate({"a": Resources(1000, 1000), "gone": Resources(1, 1)}, computed, 0.1)
    assert told == (NumaZoneOffer("a", Resources(1000, 500)), NumaZoneOffer("b", Resources(7, 7)))


@given(snapshots, strategies, resources)
def test_zones_together_never_exceed_the_node(node: NodeSnapshot, strategy: Strategy, published: Resources) -> None:
    found = zone_offers(node, strategy, published)
    assert [zone.name for zone in found] == [zone.name for zone in node.zones]
    assert sum(zone.batch.cpu_milli for zone in found) <= published.cpu_milli
    assert sum(zone.batch.memory_bytes for zone in found) <= published.memory_bytes
    assert all(min(zone.batch.cpu_milli, zone.batch.memory_bytes) >= 0 for zone in found)


@given(snapshots, strategies)
def test_zones_age_as_their_node_does_even_where_they_are_less_than_it(node: NodeSnapshot, strategy: Strategy) -> None:
    endless = Resources(2**62, 2**62)
    fresh = zone_offers(replace(node, age_seconds=0.0, lost=False), strategy, endless)
    share = remaining_share(node, strategy)
    for young, old in zip(fresh, zone_offers(node, strategy, endless), strict=True):
        assert old.batch == Resources(int(young.batch.cpu_milli * share), int(young.batch.memory_bytes * share))


@given(resources, st.integers(1, 8), st.lists(st.integers(-2, 9), max_size=5))
def test_no_share_is_lost(whole: Resources, zones: int, given_zones: list[int]) -> None:
    parts = split(whole, zones, given_zones)
    total = sum(parts, Resources())
    assert whole.cpu_milli <= total.cpu_milli < whole.cpu_milli + zones
    assert whole.memory_bytes <= total.memory_bytes < whole.memory_bytes + zones
