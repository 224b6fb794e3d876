"""Host applications in offers: a term of their own, their tier decides, and nothing counts twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from colocation_scene import Colocation
from drawn import kinds, resources, snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st
from tests.support.windows import window

from slackwater.decisions.record import DecisionRecord
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.offers.batch import compute
from slackwater.offers.mid import node_offers
from slackwater.offers.snapshot import HostApp, NodeSnapshot
from slackwater.offers.snapshot_json import snapshot_from_json, snapshot_to_json
from slackwater.offers.strategy import CountingPolicy, Strategy

NODE = NodeSnapshot(Resources(10_000, 0), Resources(), (), Resources(200, 0))


def terms(snapshot: NodeSnapshot, strategy: Strategy | None = None) -> dict[str, tuple[int, str]]:
    return {term.name: (term.value, term.note) for term in compute("cpu", snapshot, strategy or Strategy()).terms}


def apps(**usage: int) -> tuple[HostApp, ...]:
    """By tier: one of each."""
    return tuple(HostApp(f"{tier}-app", tier, Resources(cpu, 0)) for tier, cpu in usage.items())


def test_they_have_a_term_beside_the_system_which_names_the_largest_first() -> None:
    found = terms(replace(NODE, host_apps=apps(prod=300, mid=1500, batch=4000)))
    assert found["system"] == (-200, "p95")
    assert found["host_apps"] == (-1800, "p95: mid-app (mid) 1.5 cores, prod-app (prod) 0.3 cores")


def test_more_than_three_are_counted() -> None:
    many = tuple(HostApp(f"a{n}", "prod", Resources(100 + n, 0)) for n in range(5))
    value, note = terms(replace(NODE, host_apps=many))["host_apps"]
    assert value == -510
    assert note.endswith("a2 (prod) 0.102 cores, and 2 more")


def test_those_of_batch_and_free_use_what_is_offered_and_have_no_term() -> None:
    assert terms(replace(NODE, host_apps=apps(batch=4000, free=1000))) == terms(NODE)


def test_without_a_measured_system_they_count_alone() -> None:
    found = terms(replace(NODE, system=None, host_apps=apps(prod=300)))
    assert (found["system"], found["host_apps"][0]) == ((0, "never measured"), -300)


def test_a_larger_reservation_covers_both_and_says_so() -> None:
    found = terms(replace(NODE, reserved=Resources(1000, 0), host_apps=apps(prod=300)))
    assert found["reserved"] == (-1000, "more than the system and host applications use, 0.5 cores")
    assert not {"system", "host_apps"} & found.keys()


def test_the_policy_request_takes_no_usage_of_theirs() -> None:
    by_request = Strategy(cpu_policy=CountingPolicy.REQUEST)
    assert "host_apps" not in terms(replace(NODE, host_apps=apps(prod=300)), by_request)


@given(snapshots, strategies, kinds, st.sampled_from(["prod", "mid", ""]), resources)
def test_one_more_of_a_high_tier_never_raises_an_offer_and_terms_add_up(
    snapshot: NodeSnapshot, strategy: Strategy, resource: str, tier: str, usage: Resources
) -> None:
    more = replace(snapshot, host_apps=(*snapshot.host_apps, HostApp("more", tier, usage)))
    before, after = node_offers(resource, snapshot, strategy), node_offers(resource, more, strategy)
    assert after.mid.offered + after.batch.offered <= before.mid.offered + before.batch.offered
    assert sum(term.value for term in after.batch.terms) == after.batch.offered


@given(snapshots, strategies, kinds, st.sampled_from(["batch", "free"]), resources)
def test_one_more_of_a_lower_tier_changes_no_offer(
    snapshot: NodeSnapshot, strategy: Strategy, resource: str, tier: str, usage: Resources
) -> None:
    more = replace(snapshot, host_apps=(*snapshot.host_apps, HostApp("more", tier, usage)))
    assert node_offers(resource, more, strategy) == node_offers(resource, snapshot, strategy)


@given(strategies, kinds, st.integers(0, 5000), st.integers(0, 5000))
def test_naming_a_part_of_the_system_moves_it_and_counts_nothing_twice(
    strategy: Strategy, resource: str, rest: int, named: int
) -> None:
    whole = replace(NODE, capacity=Resources(10_000, 10_000), system=Resources(rest + named, rest + named))
    part = Resources(named, named)
    apart = replace(whole, system=Resources(rest, rest), host_apps=(HostApp("nginx", "prod", part),))
    assert node_offers(resource, apart, strategy).batch.offered == node_offers(resource, whole, strategy).batch.offered


def test_a_snapshot_with_some_survives_its_record() -> None:
    snapshot = replace(NODE, host_apps=apps(prod=1, batch=2))
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot
    assert "host_apps" not in snapshot_to_json(NODE)


async def offered(**host_apps: int) -> tuple[Colocation, int]:
    world = Colocation()
    await world.describe()
    told = {(f"{tier}-app", Tier(tier)): cpu for tier, cpu in host_apps.items()}
    await world.take(window("n", 1, {"p": 1000}, host_apps=told))
    return world, world.offers()[-1].batch.cpu_milli


def batch_cpu(world: Colocation) -> DecisionRecord:
    return next(record for record in reversed(world.records()) if record.subject == "batch-cpu")


async def test_a_window_with_host_applications_lowers_the_offer_and_its_record_names_them() -> None:
    _, without = await offered()
    world, found = await offered(prod=500, batch=2000)
    assert without - found == 500
    record = batch_cpu(world)
    assert {term.name: term.value for term in record.terms}["host_apps"] == -500
    named = {each.name: (each.value, each.source) for each in record.inputs if "host_app" in each.name}
    event = record.trigger_event_id
    assert named["host_apps_p95"] == (500, event)
    assert named["host_app prod-app (prod) p95"] == (500, event)
    assert named["host_app batch-app (batch) p95"] == (2000, event)


async def test_a_host_application_missing_in_the_next_window_is_dropped() -> None:
    world, found = await offered(prod=500)
    for number in range(2, 8):
        await world.take(window("n", number, {"p": 1000}))
    assert world.offers()[-1].batch.cpu_milli == found + 500
    assert "host_apps" not in {term.name for term in batch_cpu(world).terms}


@pytest.mark.parametrize("number", [2, 3])
async def test_one_that_does_not_change_causes_no_news(number: int) -> None:
    world, _ = await offered(prod=500)
    told = len(world.offers())
    for each in range(2, number + 1):
        await world.take(window("n", each, {"p": 1000}, host_apps={("prod-app", Tier.PROD): 500}))
    assert len(world.offers()) == told
