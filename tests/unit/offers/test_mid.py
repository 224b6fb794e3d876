"""Mid: what prod requested and will not need, once; and what batch has left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn import amounts, kinds, snapshots, strategies
from hypothesis import given

from slackwater.model.quantities import Resources
from slackwater.offers.batch import slack
from slackwater.offers.mid import mid_offer, node_offers, prod_allocated, prod_needs
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput
from slackwater.offers.strategy import CountingPolicy, MidMode, Strategy

DYNAMIC = Strategy(mid_mode=MidMode.DYNAMIC)


def pod(usage: int, peak: int | None = None, tier: str = "prod", request: int = 4000, qos: str = "LS") -> PodInput:
    predicted = None if peak is None else Resources(peak, 0)
    return PodInput("u", tier, qos, Resources(request, 0), Resources(usage, 0), predicted)


def node(*pods: PodInput, used: int | None = 3000, **others: object) -> NodeSnapshot:
    """10 cores, 9 allocatable, the system uses 200 milli-cores; batch's margin is 4 cores."""
    plain = NodeSnapshot(
        Resources(10_000, 0),
        Resources(1000, 0),
        pods,
        Resources(200, 0),
        allocatable=Resources(9000, 0),
        node_usage=None if used is None else Resources(used, 0),
    )
    return replace(plain, **others)  # type: ignore[arg-type] # fields by name


def both(snapshot: NodeSnapshot, strategy: Strategy = DYNAMIC) -> tuple[int, int]:
    offers = node_offers("cpu", snapshot, strategy)
    return offers.mid.offered, offers.batch.offered


def test_mid_has_what_prod_requested_and_will_not_need_and_batch_the_rest_of_the_slack() -> None:
    assert both(node(pod(500, 1000))) == (3000, 10_000 - 4000 - 1000 - 1000 - 3000)


def test_mid_is_off_unless_a_strategy_says_otherwise() -> None:
    assert both(node(pod(500, 1000)), Strategy()) == (0, 4000)


def test_requests_of_pods_without_a_prediction_are_not_lent_to_mid_by_guess() -> None:
    trusting = replace(DYNAMIC, cold_start_holds_request=False)
    cold = replace(pod(500, 500), cold=True)
    bound = replace(pod(0), usage=None, bound_seconds_ago=1.0)
    for other in (pod(500), cold, bound):
        assert prod_needs("cpu", node(pod(500, 1000), other), trusting) == 1000 + 4000
        assert both(node(pod(500, 1000, request=1000), other), trusting)[0] == 0


def test_a_prediction_of_another_tier_is_none_of_prod() -> None:
    assert prod_needs("cpu", node(pod(500), pod(500, 500, tier="mid")), DYNAMIC) is None


def test_a_ratio_below_one_keeps_a_part_of_the_requests() -> None:
    assert both(node(pod(500, 1000)), replace(DYNAMIC, mid_reclaim_ratio_percent=50)) == (1000, 3000)


def test_a_threshold_is_a_share_of_the_allocatable() -> None:
    assert both(node(pod(500, 1000)), replace(DYNAMIC, mid_cpu_threshold_percent=10)) == (900, 3100)


def test_without_a_prediction_or_the_nodes_usage_nothing_is_reclaimable() -> None:
    assert both(node(pod(500)))[0] == 0
    assert both(node(pod(500, 1000), used=None))[0] == 0
    assert prod_needs("cpu", node(pod(500)), DYNAMIC) is None


def test_a_burst_takes_from_mid_and_does_not_hand_it_to_batch() -> None:
    calm, busy = both(node(pod(500, 1000), used=3000)), both(node(pod(500, 1000), used=9000))
    assert busy == (1000, calm[1])


def test_cpu_of_an_lse_pod_is_not_reclaimable_and_its_memory_is() -> None:
    assert both(node(pod(500, 1000, qos="LSE")))[0] == 0
    with_memory = replace(pod(0, 0, qos="LSE"), request=Resources(0, 4000), predicted=Resources(0, 1000))
    snapshot = node(with_memory, capacity=Resources(0, 10_000), allocatable=None, node_usage=Resources(0, 1000))
    assert node_offers("memory", snapshot, DYNAMIC).mid.offered == 3000


def test_unrequested_capacity_may_be_added() -> None:
    mixed = replace(DYNAMIC, mid_unallocated_percent=50)
    assert both(node(pod(500, 3500)), mixed)[0] == min(500 + (10_000 - 1000 - 4000) // 2, 10_000 - 4000 - 1000 - 3500)
    apps = (HostApp("a", "mid", Resources(3000, 0)),)
    assert mid_offer("cpu", node(pod(4000, 4000), host_apps=apps), mixed)[0].offered == 0  # no slack is left for it


def test_of_unrequested_capacity_system_and_reservation_keep_the_larger() -> None:
    all_of_it = replace(DYNAMIC, mid_unallocated_percent=100, mid_reclaim_ratio_percent=0)
    assert both(node(pod(500, 1000)), all_of_it)[0] == min(10_000 - 1000 - 4000, 10_000 - 4000 - 1000 - 1000)
    busy = node(pod(500, 1000), system=Resources(4500, 0))
    assert both(busy, replace(all_of_it, cpu_reclaim_threshold_percent=100))[0] == 10_000 - 4500 - 4000
    assert both(node(pod(500, 1000, request=20_000)), all_of_it)[0] == 0


def test_of_prod_that_needs_more_than_it_requested_nothing_is_reclaimable() -> None:
    assert both(node(pod(500, 2000, request=1000))) == (0, 10_000 - 4000 - 1000 - 2000)
    just_so = mid_offer("cpu", node(pod(500, 2000, request=2000)), DYNAMIC)[0]
    assert [term.name for term in just_so.terms] == ["prod_allocated", "prod_peak", "unallocated"]


@given(snapshots, strategies, kinds)
def test_what_takes_nothing_is_no_term(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> None:
    offers = node_offers(resource, snapshot, strategy)
    limits = {"cap", "sold_once", "used", "floor"}
    assert not [term for term in (*offers.mid.terms, *offers.batch.terms) if term.name in limits and not term.value]


def test_in_static_mode_mid_has_a_fixed_share_but_no_more_than_the_slack() -> None:
    static = Strategy(mid_mode=MidMode.STATIC, mid_static_cpu_reserved_percent=20)
    assert both(node(pod(500)), static) == (1000, 0)
    assert both(node(pod(500, 500)), static) == (1800, 4500 - 1800)
    assert both(node(pod(500, 4000)), static) == (1000, 0)


def test_mid_pods_that_use_more_than_was_offered_still_hold_it_against_batch() -> None:
    assert both(node(pod(500, 1000), pod(3500, 3500, tier="mid"))) == (3000, 4000 - 3500)


@pytest.mark.parametrize("policy", CountingPolicy)
def test_offers_of_the_peer_that_overlap_do_not_here(policy: CountingPolicy) -> None:
    mid, batch = both(node(pod(500, 1000)), replace(DYNAMIC, cpu_policy=policy, mid_unallocated_percent=100))
    assert mid + batch <= 10_000 - 4000 - 1000 - 1000
    assert mid > 0


@given(snapshots, strategies, kinds)
def test_one_slack_is_sold_once(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> None:
    """Σ offers + Σ predicted prod <= capacity - reserve, whatever the strategy: where prod alone needs more than that,
    nothing is offered."""
    offers = node_offers(resource, snapshot, strategy)
    assert min(offers.mid.offered, offers.batch.offered) >= 0
    assert offers.mid.offered <= offers.mid_share
    assert offers.mid_share + offers.batch.offered <= max(0, slack(resource, snapshot, strategy))


@given(snapshots, strategies, kinds)
def test_terms_add_up_and_mid_is_within_its_ceiling(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> None:
    computed, _ = mid_offer(resource, snapshot, strategy)
    assert computed.offered == sum(term.value for term in computed.terms)
    assert 0 <= computed.offered <= max(computed.ceiling, 0)


@given(snapshots, strategies, kinds, amounts)
def test_more_use_by_prod_raises_neither_offer(
    snapshot: NodeSnapshot, strategy: Strategy, resource: str, more: int
) -> None:
    extra = Resources(more, more)
    measured = [each for each in snapshot.pods if each.usage and each.tier == "prod"]
    more_used = [replace(each, usage=each.usage + extra) for each in measured if each.usage]
    busier = (*(each for each in snapshot.pods if each not in measured), *more_used)
    used = snapshot.node_usage and snapshot.node_usage + extra
    before = node_offers(resource, snapshot, strategy)
    after = node_offers(resource, replace(snapshot, pods=busier, node_usage=used), strategy)
    assert after.mid.offered <= before.mid.offered
    assert after.batch.offered <= before.batch.offered


def test_allocated_is_what_prods_listed_pods_requested() -> None:
    pods = pod(1), pod(1, tier="mid"), pod(1, tier=""), replace(pod(1), listed=False)
    assert prod_allocated("cpu", node(*pods)) == 8000
