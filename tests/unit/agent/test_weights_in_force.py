"""The agent reports which CPU weights put prod first, as it reads them back from the machine."""

from __future__ import annotations

from typing import get_args

import pytest
from agent_fakes import pod
from agent_world import World, eviction
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.weights import (
    IDLE_SHARES,
    MIN_SHARES,
    Policy,
    ProtectingWeights,
    protection_of,
    shares_of_weight,
    weigh,
    weight_of_shares,
)
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier
from slackwater.waterline.loop.weights_first import PROTECTING

requests = st.integers(0, 64_000)


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("p", Tier.PROD), pod("a"))
    return found


def reported(world: World) -> str | None:
    return world.all(UsageReported)[-1].cpu_weights


@pytest.mark.parametrize(
    ("declared", "weights"), [("by-request", None), ("by-tier", "by-tier"), ("by-tier-idle", "by-tier-idle")]
)
async def test_a_report_says_which_weights_are_in_force(world: World, declared: str, weights: str | None) -> None:
    async with world.running(report_seconds=1.0):
        await world.clock.advance(3)
        assert reported(world) is None
        await world.declare(weights=declared)
        await world.clock.advance(3)
        assert reported(world) == weights


async def test_a_tier_that_weighs_more_for_a_grace_period_changes_nothing_in_the_report(world: World) -> None:
    world.driver.stubborn.add("a")
    batch = Knob(f"tier-{Tier.BATCH}", "cpu_weight")
    async with world.running(report_seconds=1.0):
        await world.declare(weights="by-tier-idle")
        await world.clock.advance(1)
        assert world.driver.knobs[batch] == "idle"
        await world.declare(weights="by-tier-idle", evictions=[eviction(world, "a", grace=5.0)])
        assert world.driver.knobs[batch] == "256"
        await world.clock.advance(3)
        assert reported(world) == "by-tier-idle"
        await world.clock.advance(4)
        assert world.driver.knobs[batch] == "idle"


async def test_what_another_program_writes_is_no_protection(world: World) -> None:
    async with world.running(report_seconds=1.0):
        await world.declare(weights="by-tier")
        await world.clock.advance(3)
        assert reported(world) == "by-tier"
        world.driver.knobs[Knob(f"tier-{Tier.FREE}", "cpu_weight")] = "512"
        await world.clock.advance(1)
        assert reported(world) is None


@given(requests, requests, st.sampled_from([Policy.BY_TIER, Policy.BY_TIER_IDLE]), st.booleans())
def test_what_is_written_by_tier_reads_back_as_protection(prod: int, batch: int, policy: Policy, is_v2: bool) -> None:
    shares = weigh([pod("p", Tier.PROD, prod), pod("b", Tier.BATCH, batch)], policy).tiers
    if is_v2:
        shares = {
            tier: IDLE_SHARES if share == IDLE_SHARES else shares_of_weight(weight_of_shares(share))
            for tier, share in shares.items()
        }
    assert protection_of(shares) == policy.value


@given(st.dictionaries(st.sampled_from(list(Tier)), st.integers(0, 3000)))
def test_prod_is_protected_only_above_the_least_weight_of_all_lower_tiers(shares: dict[Tier, int]) -> None:
    lower = [shares[tier] for tier in (Tier.BATCH, Tier.FREE) if tier in shares]
    is_protected = bool(lower) and max(lower) <= MIN_SHARES < shares.get(Tier.PROD, 0)
    assert (protection_of(shares) is not None) is is_protected


def test_agent_and_planner_have_the_same_words() -> None:
    assert set(get_args(ProtectingWeights)) == PROTECTING
