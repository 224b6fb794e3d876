"""Offers of a whole fleet in one pass: the formulas of `tier_holdings`, `batch`, `mid` and `degradation` on arrays.

A test requires results equal to `node_offer.decide_node`. Sums use double precision, which is exact up to 2^53 bytes,
eight petabytes on one node.
"""

from __future__ import annotations

import numpy as np

from slackwater.model.records import record
from slackwater.offers.fleet import TIERS, FleetArrays, Floats, GateRows, Ints, PodRows
from slackwater.offers.fleet_gates import pass_gates
from slackwater.offers.mid import without_guesses
from slackwater.offers.strategy import CountingPolicy, MarginMode, MidMode, Strategy

_RESOURCES = ("cpu", "memory")
_WITHOUT_CAP = np.int64(2**62)


@record(frozen=True, slots=True)
class FleetOffers:
    """Offers in force, (nodes, 2) each."""

    mid: Ints
    batch: Ints
    gates: GateRows


@record(frozen=True, slots=True)
class _Sums:
    """What pods hold of each node, (nodes, 2): by the policy `usage`, and by the strategy's policies."""

    prod: Ints
    mid: Ints
    prod_counted: Ints
    mid_counted: Ints
    prod_requested: Ints
    prod_needs: Ints
    """For mid: a pod without prediction needs all of its request."""
    predicted: Ints


def recompute(fleet: FleetArrays, strategy: Strategy, gates: GateRows, windows: Ints) -> FleetOffers:
    """Returns the offers of all nodes under one strategy.

    `windows` (nodes,): the end of each node's usage window, seconds since 1970.
    """
    mid, mid_ceiling, batch, batch_ceiling = _computed(fleet, strategy)
    left = _remaining(fleet, strategy)
    degraded = fleet.lost | (left < 1) | ~fleet.system_known
    after = pass_gates(
        gates,
        np.hstack([_aged(mid, left), _aged(batch, left)]),
        ceiling=np.hstack([mid_ceiling, batch_ceiling]),
        windows=windows,
        degraded=degraded,
        strategy=strategy,
    )
    mid_left = np.maximum(after.published[:, :2] - fleet.kept_mid, 0)
    return FleetOffers(mid_left, np.maximum(after.published[:, 2:] - fleet.kept_batch, 0), after)


def _computed(fleet: FleetArrays, strategy: Strategy) -> tuple[Ints, Ints, Ints, Ints]:
    """Returns mid and its ceiling, batch and its ceiling."""
    if not strategy.enabled:
        nothing = np.zeros_like(fleet.capacity)
        return nothing, nothing, nothing, nothing
    sums = _summed(fleet, strategy)
    kept = strategy.reserved
    reserved = np.maximum(fleet.reserved, np.array([kept.cpu_milli, kept.memory_bytes]))
    system = fleet.system + fleet.prod_apps + fleet.mid_apps
    margin = _margin(fleet, strategy)
    slack = fleet.capacity - margin - np.maximum(reserved, system) - sums.prod
    mid, mid_ceiling, share = _mid(fleet, strategy, sums, slack, reserved)
    caps = _caps(fleet, strategy)
    batch = fleet.capacity - margin - sums.prod_counted
    by_request, by_usage = (
        np.array([strategy.policy(resource) is policy for resource in _RESOURCES]) for policy in _ASKED
    )
    batch = batch - np.where(by_request, reserved, np.maximum(reserved, system))
    batch = np.maximum(0, batch - np.where(by_usage, np.maximum(sums.mid_counted, share), sums.mid_counted))
    once = np.maximum(0, slack - np.maximum(sums.mid, share))
    batch = np.minimum(np.where(by_usage, batch, np.minimum(batch, once)), caps)
    ceiling = np.maximum(0, np.minimum(fleet.capacity - margin - reserved, caps))
    return mid, mid_ceiling, batch, ceiling


_ASKED = (CountingPolicy.REQUEST, CountingPolicy.USAGE)


def _mid(fleet: FleetArrays, strategy: Strategy, sums: _Sums, slack: Ints, reserved: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns the offer, its ceiling, and the share that batch leaves to mid."""
    if strategy.mid_mode is MidMode.OFF:
        nothing = np.zeros_like(slack)
        return nothing, nothing, nothing
    ceiling = _percent_of(fleet.allocatable, np.array([strategy.mid_threshold(resource) for resource in _RESOURCES]))
    most = np.minimum(ceiling, np.maximum(0, slack))
    if strategy.mid_mode is MidMode.STATIC:
        static = _percent_of(fleet.allocatable, np.array([strategy.mid_static(resource) for resource in _RESOURCES]))
        share = np.minimum(static, most)
        return share, ceiling, share
    allocated = _percent_of(sums.prod_requested, np.int64(strategy.mid_reclaim_ratio_percent))
    is_predicted = (fleet.prod_peak_known | (sums.predicted > 0))[:, None]
    reclaimable = np.where(is_predicted, np.maximum(0, allocated - sums.prod_needs), 0)
    held_back = np.maximum(fleet.system + fleet.prod_apps, reserved)
    unallocated = _percent_of(
        np.maximum(0, fleet.capacity - held_back - sums.prod_requested), np.int64(strategy.mid_unallocated_percent)
    )
    unused = np.where(fleet.node_usage_known[:, None], np.maximum(0, fleet.capacity - fleet.node_usage), 0)
    share = np.minimum(reclaimable + unallocated, most)
    return np.minimum(np.minimum(reclaimable, unused) + unallocated, most), ceiling, share


def _summed(fleet: FleetArrays, strategy: Strategy) -> _Sums:
    pods, nodes = fleet.pods, len(fleet)
    request = np.where(pods.listed[:, None], pods.request, 0)
    held = _held(pods, strategy)
    holds, requested = _by_tier(pods, held, nodes), _by_tier(pods, request, nodes)
    larger = _by_tier(pods, np.maximum(held, request), nodes)
    policies = [strategy.policy(resource) for resource in _RESOURCES]
    predicted = np.bincount(pods.node[pods.has_prediction & (pods.tier == 0)], minlength=nodes)
    together = _together(fleet, held)
    prod = np.where(fleet.prod_peak_known[:, None], together, holds[:, 0])
    by = {
        CountingPolicy.USAGE: (prod, holds[:, 1]),
        CountingPolicy.REQUEST: (requested[:, 0], requested[:, 1]),
        CountingPolicy.MAX_USAGE_REQUEST: (
            np.where(fleet.prod_peak_known[:, None], np.maximum(together, larger[:, 0]), larger[:, 0]),
            larger[:, 1],
        ),
    }
    counted = [
        np.column_stack([by[policy][tier][:, place] for place, policy in enumerate(policies)]) for tier in (0, 1)
    ]
    needs = _needs(fleet, strategy) if strategy.mid_mode is MidMode.DYNAMIC else prod
    return _Sums(prod, holds[:, 1], counted[0], counted[1], requested[:, 0], needs, predicted)


def _needs(fleet: FleetArrays, strategy: Strategy) -> Ints:
    """Returns what prod needs; see `mid.prod_needs`."""
    held = _held(fleet.pods, without_guesses(strategy))
    alone = _by_tier(fleet.pods, held, len(fleet))[:, 0]
    return np.where(fleet.prod_peak_known[:, None], _together(fleet, held), alone)


def _held(pods: PodRows, strategy: Strategy) -> Ints:
    """Returns (pods, 2) held by the policy `usage`: `tier_holdings.held_by` with its rules in reverse order."""
    claim = np.maximum(pods.request, pods.predicted)
    usage, measured = pods.usage, pods.measured[:, None]
    claim = _settling(claim, pods.bound_seconds, strategy.bind_settle_seconds)
    held = np.maximum(claim, usage) if strategy.cold_start_holds_request else usage
    held = np.where(measured, held, claim)
    warm = (pods.has_prediction & ~pods.cold)[:, None]
    held = np.where(warm, np.maximum(usage, pods.predicted), held)
    owned = np.maximum(pods.request[:, 0], usage[:, 0])
    held[:, 0] = np.where(pods.lse, owned, held[:, 0])
    return np.where(pods.listed[:, None], held, usage)


def _settling(claim: Ints, bound: Floats, settle: float) -> Ints:
    """Reduces the claim of newly bound pods to the settled part, rounded up; other claims stay."""
    young = bound < settle
    if not young.any():
        return claim
    part = claim.copy()
    part[young] = np.ceil(claim[young] * np.maximum(0.0, bound[young])[:, None] / settle).astype(np.int64)
    return part


def _together(fleet: FleetArrays, held: Ints) -> Ints:
    """Returns the combined peak of prod on each node; see `tier_holdings`."""
    pods, nodes = fleet.pods, len(fleet)
    covered = (pods.has_prediction & ~pods.cold)[:, None]
    guessed = np.where((pods.has_prediction & pods.cold)[:, None], pods.predicted, 0)
    beyond = np.zeros_like(held)
    beyond[:, 0] = np.where(pods.lse, np.maximum(0, held[:, 0] - np.maximum(pods.predicted, pods.usage)[:, 0]), 0)
    used = _by_tier(pods, np.where(covered, pods.usage, 0), nodes)[:, 0]
    alone = _by_tier(pods, np.where(covered, beyond, held), nodes)[:, 0]
    known: Ints = np.maximum(fleet.prod_peak - _by_tier(pods, guessed, nodes)[:, 0], used)
    return known + alone


def _by_tier(pods: PodRows, amounts: Ints, nodes: int) -> Ints:
    """Returns (nodes, tiers, 2): sums over the pods of each node and tier."""
    slot, count = pods.node * len(TIERS) + pods.tier, nodes * len(TIERS)
    columns = [np.bincount(slot, weights=amounts[:, place], minlength=count) for place in (0, 1)]
    return np.column_stack(columns).astype(np.int64).reshape(nodes, len(TIERS), 2)


def _margin(fleet: FleetArrays, strategy: Strategy) -> Ints:
    if strategy.margin_mode is MarginMode.CAP:
        return np.zeros_like(fleet.capacity)
    return _percent_of(
        fleet.capacity, 100 - np.array([strategy.reclaim_threshold(resource) for resource in _RESOURCES])
    )


def _caps(fleet: FleetArrays, strategy: Strategy) -> Ints:
    caps = np.full_like(fleet.capacity, _WITHOUT_CAP)
    for place, resource in enumerate(_RESOURCES):
        percents = [strategy.batch_threshold(resource)]
        if strategy.margin_mode is MarginMode.CAP:
            percents.append(strategy.reclaim_threshold(resource))
        for percent in percents:
            if percent is not None:
                most = _percent_of(fleet.capacity[:, place], np.int64(percent))
                caps[:, place] = np.minimum(caps[:, place], most)
    return caps


def _remaining(fleet: FleetArrays, strategy: Strategy) -> Floats:
    """Returns the remaining share; see `degradation.remaining_share`."""
    age, first, last = fleet.age_seconds, strategy.decay_from_seconds, strategy.decay_to_seconds
    share = np.where(age <= first, 1.0, (last - np.minimum(age, last)) / (last - first))
    return np.where(fleet.lost | (age >= last), 0.0, share)


def _aged(offered: Ints, share: Floats) -> Ints:
    return (offered * share[:, None]).astype(np.int64)


def _percent_of(whole: Ints, percent: Ints | np.int64) -> Ints:
    """Returns the percentage, cut toward zero, in integers."""
    product = whole * percent
    return np.where(product >= 0, product // 100, -(-product // 100))
