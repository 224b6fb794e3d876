"""The batch offer: by what pods are counted, what is kept back, and terms that always add up."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from drawn import amounts, gates, kinds, snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.batch import batch_offer, compute, request_policy
from slackwater.offers.mid import node_offers
from slackwater.offers.offer import Decided, decide, replay_of, replay_of_all, settled
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.reservation import safety_margin
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.snapshot_json import snapshot_from_json, snapshot_to_json
from slackwater.offers.strategy import MarginMode, Strategy
from slackwater.offers.tier_holdings import Basis, held_by

GIB = 2**30
STRATEGY = Strategy()


def pod(usage: int | None = 500, peak: int | None = None, **others: object) -> PodInput:
    plain = PodInput("u", "prod", "LS", Resources(2000, GIB), None if usage is None else Resources(usage, GIB // 4))
    predicted = None if peak is None else Resources(peak, GIB // 2)
    return replace(plain, predicted=predicted, **others)  # type: ignore[arg-type] # fields by name


def snapshot(*pods: PodInput, system: int | None = 200, **others: object) -> NodeSnapshot:
    measured = None if system is None else Resources(system, GIB // 8)
    return replace(NodeSnapshot(Resources(10_000, 16 * GIB), Resources(), pods, measured), **others)  # type: ignore[arg-type] # fields by name


def test_the_offer_is_what_margin_system_and_prod_leave() -> None:
    offer = batch_offer(snapshot(pod(usage=500, peak=900)), STRATEGY)
    assert offer.cpu.offered == 10_000 - 4000 - 200 - 900
    assert offer.memory.offered == 16 * GIB - (16 * GIB * 35) // 100 - GIB // 8 - GIB // 2


@pytest.mark.parametrize(
    ("counted", "value", "basis"),
    [
        (pod(usage=500, peak=900), 900, Basis.PREDICTED),
        (pod(usage=1200, peak=900), 1200, Basis.USAGE_ABOVE_PREDICTION),
        (pod(usage=500, peak=2000, cold=True), 2000, Basis.COLD_REQUEST),
        (pod(usage=2500, peak=2000, cold=True), 2500, Basis.USAGE),
        (pod(usage=500), 2000, Basis.COLD_REQUEST),
        (pod(usage=None), 2000, Basis.UNMEASURED),
        (pod(usage=None, peak=900), 900, Basis.PREDICTED),
        (pod(usage=None, peak=3000, cold=True), 3000, Basis.UNMEASURED),
        (pod(usage=500, peak=3000, cold=True), 3000, Basis.COLD_REQUEST),
        (pod(usage=500, peak=900, qos="LSE"), 2000, Basis.OWNED),
        (replace(pod(usage=500), bound_seconds_ago=60), 1000, Basis.SETTLING),
        (replace(pod(usage=1100), bound_seconds_ago=60), 1100, Basis.USAGE),
        (replace(pod(usage=500), bound_seconds_ago=120), 2000, Basis.COLD_REQUEST),
        (replace(pod(usage=500, peak=900), bound_seconds_ago=1), 900, Basis.PREDICTED),
    ],
)
def test_a_pod_is_counted_by_what_is_known_of_it(counted: PodInput, value: int, basis: Basis) -> None:
    assert held_by(counted, "cpu", STRATEGY) == (value, basis)


def test_memory_of_an_lse_pod_is_counted_like_any_other() -> None:
    assert held_by(pod(peak=900, qos="LSE"), "memory", STRATEGY) == (GIB // 2, Basis.PREDICTED)


def test_without_holding_cold_requests_usage_alone_counts_as_in_the_peer() -> None:
    trusting = replace(STRATEGY, cold_start_holds_request=False)
    assert held_by(pod(usage=500), "cpu", trusting) == (500, Basis.USAGE)


def test_batch_and_free_pods_do_not_reduce_the_offer() -> None:
    assert batch_offer(snapshot(pod(tier="batch"), pod(tier="free")), STRATEGY) == batch_offer(snapshot(), STRATEGY)


def test_the_larger_of_system_and_reservation_is_kept_back() -> None:
    reserved = snapshot(system=200, reserved=Resources(700, 0))
    assert compute("cpu", reserved, STRATEGY).offered == 6000 - 700
    assert compute("cpu", reserved, replace(STRATEGY, reserved=Resources(900, 0))).offered == 6000 - 900
    assert compute("cpu", replace(reserved, system=Resources(1500, 0)), STRATEGY).offered == 6000 - 1500


def test_a_system_never_measured_is_recorded_and_not_taken_for_idle() -> None:
    computed = compute("cpu", snapshot(system=None, reserved=Resources(300, 0)), STRATEGY)
    assert computed.offered == 5700
    assert "never measured" in computed.terms[2].note


def test_a_threshold_above_one_hundred_lends_more_than_there_is() -> None:
    bold = replace(STRATEGY, cpu_reclaim_threshold_percent=150)
    assert safety_margin("cpu", Resources(10_000, 0), bold) == -5000
    assert compute("cpu", snapshot(), bold).offered == 15_000 - 200


def test_the_policy_request_counts_requests_and_no_system() -> None:
    assert request_policy("cpu", snapshot(pod(usage=100, peak=100)), STRATEGY) == 10_000 - 4000 - 2000


def decide_resource(
    resource: str, node: NodeSnapshot, strategy: Strategy, gate: PublishGate, window: int, tier: str = "batch"
) -> Decided:
    offers = node_offers(resource, node, strategy)
    return settled(offers.mid if tier == "mid" else offers.batch, node, strategy, gate, window)


@given(snapshots, strategies, gates, st.integers(0, 200), kinds, st.sampled_from(["batch", "mid"]))
def test_terms_add_up_and_the_record_repeats_itself(
    node: NodeSnapshot, strategy: Strategy, gate: PublishGate, window: int, resource: str, tier: str
) -> None:
    decided = decide_resource(resource, node, strategy, gate, window, tier)
    assert sum(term.value for term in decided.terms) == decided.value
    assert decided.value >= 0
    told = replay_of_all(node, strategy, window) | replay_of(tier, resource, gate)
    assert decide(**json.loads(json.dumps(told))) == decided.value


@given(snapshots)
def test_a_snapshot_is_written_out_with_all_that_it_has(node: NodeSnapshot) -> None:
    written = snapshot_to_json(node)
    assert written["system"] == (None if node.system is None else asdict(node.system))
    assert snapshot_from_json(json.loads(json.dumps(snapshot_to_json(node)))) == node


@given(snapshots, strategies, gates, kinds)
def test_no_offer_exceeds_capacity_less_margin_and_reservation(
    node: NodeSnapshot, strategy: Strategy, gate: PublishGate, resource: str
) -> None:
    capacity = getattr(node.capacity, "cpu_milli" if resource == "cpu" else "memory_bytes")
    reserved = node.reserved.larger_of(strategy.reserved)
    kept = getattr(reserved, "cpu_milli" if resource == "cpu" else "memory_bytes")
    margin = safety_margin(resource, node.capacity, strategy) if strategy.margin_mode is MarginMode.RESERVE else 0
    bound = max(0, capacity - margin - kept)
    assert decide_resource(resource, node, strategy, gate, 500).value <= bound


@given(snapshots, strategies, kinds, amounts)
def test_more_use_by_prod_never_raises_an_offer(
    node: NodeSnapshot, strategy: Strategy, resource: str, more: int
) -> None:
    busier = tuple(replace(p, usage=(p.usage or Resources()) + Resources(more, more)) for p in node.pods)
    measured = all(p.usage is not None for p in node.pods)
    if measured:
        before = compute(resource, node, strategy).offered
        assert compute(resource, replace(node, pods=busier), strategy).offered <= before
