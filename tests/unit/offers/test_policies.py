"""Policies, margins and caps of the batch offer, and how pods count: worked by hand, and as properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn import amounts, kinds, snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.batch import compute, slack
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput, percent_of, tier_of
from slackwater.offers.strategy import CountingPolicy, MarginMode, Strategy, strategy_from_json, strategy_to_json
from slackwater.offers.tier_holdings import Basis, TierHolds, held_by, tier_holds

TRUSTING = Strategy(cold_start_holds_request=False)
"""Counts as the field does: usage alone for a pod without a prediction."""


def pod(usage: int | None, request: int = 2000, **others: object) -> PodInput:
    measured = None if usage is None else Resources(usage, 0)
    return replace(PodInput("u", "prod", "LS", Resources(request, 0), measured), **others)  # type: ignore[arg-type] # fields by name


def offered(*pods: PodInput, strategy: Strategy = TRUSTING, mid: int = 0, **others: object) -> int:
    """Of a node with 10 cores whose system uses 200 milli-cores; 4 cores are margin."""
    node = replace(NodeSnapshot(Resources(10_000, 0), Resources(), pods, Resources(200, 0)), **others)  # type: ignore[arg-type] # fields by name
    return compute("cpu", node, strategy, mid).offered


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (CountingPolicy.USAGE, 6000 - 200 - 500 - 2500),
        (CountingPolicy.REQUEST, 6000 - 2000 - 1000),
        (CountingPolicy.MAX_USAGE_REQUEST, 6000 - 200 - 2000 - 2500),
    ],
)
def test_a_policy_says_by_what_pods_are_counted(policy: CountingPolicy, value: int) -> None:
    pods = pod(500), pod(2500, request=1000)
    assert offered(*pods, strategy=replace(TRUSTING, cpu_policy=policy)) == min(value, 6000 - 200 - 3000)


def test_requests_below_use_do_not_lend_what_is_used() -> None:
    by_request = replace(TRUSTING, cpu_policy=CountingPolicy.REQUEST)
    assert offered(pod(5000, request=100), strategy=by_request) == 6000 - 200 - 5000
    assert (
        compute("cpu", NodeSnapshot(Resources(10_000, 0), Resources(), (pod(5000, 100),), None), by_request)
        .terms[-1]
        .name
        == "sold_once"
    )


def test_by_request_mid_counts_with_its_requests_and_is_lent_no_slack_twice_either() -> None:
    by_request = replace(TRUSTING, cpu_policy=CountingPolicy.REQUEST)
    assert offered(pod(500, request=4000), strategy=by_request, mid=2000) == 6000 - 4000
    assert offered(pod(500, request=600), strategy=by_request, mid=2000) == 6000 - 200 - 500 - 2000
    assert offered(pod(3000, request=100, tier="mid"), strategy=by_request) == 6000 - 200 - 3000
    assert offered(pod(3000, request=100, tier="mid"), strategy=by_request, mid=2000) == 6000 - 200 - 3000


def test_a_reservation_names_its_source() -> None:
    def source(strategy: Strategy) -> str:
        node = NodeSnapshot(Resources(10_000, 0), Resources(700, 0), (), Resources(200, 0))
        return next(term.input for term in compute("cpu", node, strategy).terms if term.name == "reserved")

    assert source(TRUSTING) == source(replace(TRUSTING, reserved=Resources(700, 0))) == "reserved_by_node"
    assert source(replace(TRUSTING, reserved=Resources(701, 0))) == "reserved_by_strategy"


def test_policies_are_chosen_for_each_resource() -> None:
    mixed = replace(TRUSTING, memory_policy=CountingPolicy.REQUEST)
    node = NodeSnapshot(
        Resources(1000, 1000), Resources(), (PodInput("u", "prod", "LS", Resources(300, 300), Resources(10, 10)),), None
    )
    assert compute("cpu", node, mixed).offered == 600 - 10
    assert compute("memory", node, mixed).offered == 650 - 300


def test_a_pod_that_was_not_measured_counts_with_its_request_by_every_policy() -> None:
    for policy in CountingPolicy:
        kept = 200 if policy is not CountingPolicy.REQUEST else 0
        assert offered(pod(None), strategy=replace(TRUSTING, cpu_policy=policy)) <= 6000 - kept - 2000


def test_a_pod_that_was_just_bound_claims_its_request_little_by_little() -> None:
    claims = [
        held_by(pod(None, bound_seconds_ago=age), "cpu", Strategy(bind_settle_seconds=120)) for age in (0, 60, 120)
    ]
    assert held_by(pod(None, 1, bound_seconds_ago=1), "cpu", Strategy()) == (1, Basis.SETTLING)  # rounded up
    assert claims == [(0, Basis.SETTLING), (1000, Basis.SETTLING), (2000, Basis.UNMEASURED)]
    assert held_by(pod(None), "cpu", Strategy()) == (2000, Basis.UNMEASURED)
    assert held_by(pod(None, bound_seconds_ago=0, qos="LSE"), "cpu", Strategy()) == (2000, Basis.OWNED)


@given(st.lists(st.floats(0, 400), min_size=2, max_size=8).map(sorted), st.integers(1, 10**6))
def test_a_new_pods_claim_only_grows_and_never_above_its_request(ages: list[float], request: int) -> None:
    claims = [held_by(pod(None, request, bound_seconds_ago=age), "cpu", Strategy())[0] for age in ages]
    assert claims == sorted(claims)
    assert claims[-1] <= request


def test_usage_of_an_unlisted_pod_is_held_and_of_batch_is_not() -> None:
    unknown = pod(700, request=0, listed=False, tier="")
    assert offered(unknown, strategy=replace(TRUSTING, cpu_policy=CountingPolicy.MAX_USAGE_REQUEST)) == 6000 - 200 - 700
    assert offered(replace(unknown, tier="batch")) == 6000 - 200


def test_host_applications_count_with_the_system_unless_they_are_of_a_lower_tier() -> None:
    def of(tier: str) -> int:
        return offered(host_apps=(HostApp("web", tier, Resources(300, 0)),))

    assert [of(tier) for tier in ("prod", "mid", "", "batch", "free")] == [5500, 5500, 5500, 5800, 5800]
    assert offered(host_apps=(HostApp("web", "prod", Resources(300, 0)),), system=None) == 5700


def test_a_margin_as_a_cap_leaves_a_half_empty_node_whole_and_still_limits_an_empty_one() -> None:
    capped = replace(TRUSTING, margin_mode=MarginMode.CAP)
    assert offered(pod(5000), strategy=capped) == 10_000 - 200 - 5000
    assert offered(strategy=capped) == 6000


def test_a_threshold_for_batch_alone_caps_whatever_the_rest_says() -> None:
    assert offered(strategy=replace(TRUSTING, batch_cpu_threshold_percent=10)) == 1000
    bold = replace(TRUSTING, cpu_reclaim_threshold_percent=150, batch_cpu_threshold_percent=100)
    assert offered(strategy=bold) == 10_000


def test_what_was_offered_to_mid_is_not_offered_again_nor_subtracted_twice() -> None:
    running = pod(700, tier="mid")
    assert offered(running) == 5800 - 700
    assert offered(running, mid=2000) == 5800 - 2000
    assert offered(running, mid=500) == 5800 - 700


def test_a_peak_of_all_of_prod_together_stands_in_for_the_sum_of_its_pods() -> None:
    pods = [pod(100, predicted=Resources(1000, 0)) for _ in range(3)]
    assert offered(*pods) == 5800 - 3000
    assert offered(*pods, prod_peak=Resources(1200, 0)) == 5800 - 1200
    busy = [replace(each, usage=Resources(600, 0)) for each in pods]
    assert offered(*busy, prod_peak=Resources(1200, 0)) == 5800 - 1800
    unknown = pod(None, request=400)
    assert offered(*pods, unknown, prod_peak=Resources(1200, 0)) == 5800 - 1200 - 400
    own = replace(pods[0], qos="LSE")
    assert offered(own, *pods[1:], prod_peak=Resources(1200, 0)) == 5800 - 1200 - (2000 - 1000)
    above = replace(own, predicted=Resources(2500, 0))  # its cores are less than its part of the peak
    assert offered(above, *pods[1:], prod_peak=Resources(3000, 0)) == 5800 - 3000


def test_by_the_larger_of_both_a_common_peak_counts_where_it_is_more_than_requests() -> None:
    larger = replace(TRUSTING, cpu_policy=CountingPolicy.MAX_USAGE_REQUEST)
    pods = [pod(100, request=1200, predicted=Resources(1000, 0)) for _ in range(3)]
    assert offered(*pods, strategy=larger, prod_peak=Resources(2000, 0)) == 5800 - 3600
    assert offered(*pods, strategy=larger, prod_peak=Resources(4000, 0)) == 5800 - 4000


def test_a_term_says_how_pods_were_counted_and_stands_on_what_the_largest_was_counted_by() -> None:
    def held(*pods: PodInput, peak: Resources | None = None) -> TierHolds:
        node = NodeSnapshot(Resources(10_000, 0), Resources(), pods, None, prod_peak=peak)
        return tier_holds("prod", "cpu", node, TRUSTING, CountingPolicy.USAGE)

    used, unmeasured = pod(300), pod(None, request=200)
    known = pod(100, predicted=Resources(500, 0))
    assert held() == TierHolds(0, "no pods", "prod_p95")
    assert held(used, unmeasured) == TierHolds(500, "1 by request (not measured), 1 by usage", "prod_p95")
    assert held(used, known, known) == TierHolds(1300, "2 by predicted peak, 1 by usage", "prod_predicted_peaks")
    assert held(used, pod(None, request=301)).input == "prod_requests"
    together = held(used, known, peak=Resources(700, 0))
    assert together == TierHolds(
        1000, "predicted peak of all prod pods; 1 by predicted peak, 1 by usage", "prod_predicted_peaks"
    )


def test_the_part_of_a_common_peak_that_is_a_guess_is_counted_by_its_pod_instead() -> None:
    warm = pod(100, predicted=Resources(1000, 0))
    cold = pod(100, request=2000, predicted=Resources(3000, 0), cold=True)
    together = Resources(4000, 0)
    held = Strategy()
    assert offered(warm, cold, prod_peak=together, strategy=held) == 5800 - 4000
    young = replace(cold, bound_seconds_ago=40)
    assert offered(warm, young, prod_peak=together, strategy=held) == 5800 - 1000 - 1000
    assert (
        offered(warm, cold, prod_peak=together) == 5800 - 1000 - 100
    )  # a trusting policy lends what a cold pod requested


def test_where_colocation_is_off_nothing_is_offered_and_the_terms_say_so() -> None:
    computed = compute("cpu", NodeSnapshot(Resources(10_000, 0), Resources(), (), None), Strategy(enabled=False))
    assert (computed.offered, computed.ceiling) == (0, 0)
    assert [term.name for term in computed.terms] == ["capacity", "disabled"]


def test_percentages_are_exact_and_cut_toward_zero() -> None:
    assert percent_of(100_000, 29) == 29_000
    assert (percent_of(199, 50), percent_of(199, -50)) == (99, -99)
    assert [tier_of(tier) for tier in ("prod", "mid", "batch", "free", "", "system")] == [
        "prod", "mid", "batch", "free", "prod", "prod",
    ]  # fmt: skip


@given(strategies)
def test_a_strategy_is_read_as_it_was_written_and_an_older_one_has_defaults(strategy: Strategy) -> None:
    assert strategy_from_json(strategy_to_json(strategy)) == strategy
    assert strategy_from_json({"reserved": {"cpu_milli": 1, "memory_bytes": 2}, "rise_windows": 3}) == Strategy(
        reserved=Resources(1, 2), rise_windows=3
    )


@given(snapshots, strategies, kinds, amounts)
def test_offers_are_within_slack_and_caps_and_their_terms_add_up(
    node: NodeSnapshot, strategy: Strategy, resource: str, mid: int
) -> None:
    lent = min(mid, max(0, slack(resource, node, strategy)))
    computed = compute(resource, node, strategy, lent)
    assert computed.offered == sum(term.value for term in computed.terms)
    assert 0 <= computed.offered <= max(0, slack(resource, node, strategy)) - lent
    assert computed.offered <= computed.ceiling
    if (percent := strategy.batch_threshold(resource)) is not None:
        capacity = node.capacity.cpu_milli if resource == "cpu" else node.capacity.memory_bytes
        assert computed.offered <= percent_of(capacity, percent)
