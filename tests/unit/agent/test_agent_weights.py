"""CPU weights by request and by tier, and their two notations."""

from __future__ import annotations

from random import Random

import pytest
from agent_fakes import pod
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.weights import (
    IDLE_SHARES,
    MAX_SHARES,
    MIN_SHARES,
    Policy,
    shares_of_request,
    shares_of_weight,
    weigh,
    weight_of_shares,
)
from slackwater.model.tiers import Tier

pods = st.lists(st.tuples(st.sampled_from(Tier), st.integers(0, 64_000)), max_size=20).map(
    lambda items: [pod(f"p{at}", tier, request) for at, (tier, request) in enumerate(items)]
)


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (262_144, 10_000), (1024, 39), (1, 1), (10**6, 10_000)])
def test_shares_become_weights_as_kubernetes_does_it(shares: int, weight: int) -> None:
    assert weight_of_shares(shares) == weight


@given(st.integers(1, 10_000))
def test_a_weight_survives_the_way_to_shares_and_back_within_one(weight: int) -> None:
    shares = shares_of_weight(weight)
    assert MIN_SHARES <= shares <= MAX_SHARES
    assert weight - 1 <= weight_of_shares(shares) <= weight


@given(st.integers(MIN_SHARES, MAX_SHARES), st.integers(MIN_SHARES, MAX_SHARES))
def test_conversion_keeps_the_order(one: int, other: int) -> None:
    assert (weight_of_shares(one) <= weight_of_shares(other)) or one > other


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (2, 2), (1000, 1024), (250, 256), (10**9, MAX_SHARES)])
def test_a_pods_shares_follow_its_request(milli: int, shares: int) -> None:
    assert shares_of_request(milli) == shares


@given(pods)
def test_by_request_a_tier_weighs_what_its_pods_weigh(given_pods: list) -> None:
    found = weigh(given_pods, Policy.BY_REQUEST)
    for tier in Tier:
        total = sum(found.pods[item.uid] for item in given_pods if item.tier is tier)
        assert found.tiers[tier] == min(MAX_SHARES, max(MIN_SHARES, total))


@given(pods)
def test_by_tier_prod_comes_before_mid_before_the_rest(given_pods: list) -> None:
    tiers = weigh(given_pods, Policy.BY_TIER).tiers
    assert tiers[Tier.PROD] >= 1024
    assert tiers[Tier.MID] == tiers[Tier.PROD] // 4
    assert tiers[Tier.BATCH] == tiers[Tier.FREE] == 2


@given(pods, st.sampled_from([Policy.BY_TIER, Policy.BY_TIER_IDLE]), st.randoms())
def test_a_tier_with_a_pod_in_its_grace_weighs_a_fifth_of_itself_and_prod(
    given_pods: list, policy: Policy, draw: Random
) -> None:
    ending = {item.uid for item in given_pods if draw.random() < 0.3}
    plain, found = weigh(given_pods, policy), weigh(given_pods, policy, ending)
    raised = {item.tier for item in given_pods if item.uid in ending} & {Tier.BATCH, Tier.FREE}
    assert found.pods == plain.pods
    assert found.tiers == {**plain.tiers, **dict.fromkeys(raised, plain.tiers[Tier.PROD] // 4)}


@given(pods)
def test_by_tier_and_idle_only_the_last_two_tiers_differ(given_pods: list) -> None:
    plain, idle = weigh(given_pods, Policy.BY_TIER), weigh(given_pods, Policy.BY_TIER_IDLE)
    assert idle.pods == plain.pods
    assert idle.tiers == {**plain.tiers, Tier.BATCH: IDLE_SHARES, Tier.FREE: IDLE_SHARES}
