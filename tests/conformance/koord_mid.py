"""Suites of mid, and of mid and batch together, in koord_colocation.json."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from koord_batch import UNDONE as BATCH_UNDONE
from koord_batch import cut_otherwise, explained, node_batch, without
from koord_node import amounts, snapshot_of, strategy_of
from koord_shapes import OffersAnswer, offer_case
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.model.quantities import Resources
from slackwater.offers.degradation import remaining_share
from slackwater.offers.mid import node_offers, prod_allocated
from slackwater.offers.snapshot import NodeSnapshot, PodInput, tier_of
from slackwater.offers.strategy import Strategy

Inputs = tuple[NodeSnapshot, Strategy]
_KEYS = {
    "midCpu": ("mid", "cpu"),
    "midMem": ("mid", "memory"),
    "batchCpu": ("batch", "cpu"),
    "batchMem": ("batch", "memory"),
}


def offers(case: Case) -> Verdict:
    """Mid, or mid and batch: what is asked for."""
    given, want = case["in"], wanted(case)
    if given is None or given.get("node") is None or given.get("strategy") is None:
        return differ("typed-arguments")
    if given.get("metrics") is None:
        return compare("reset", want)
    strategy = strategy_of(given["strategy"])
    if remaining_share(snapshot_of(given), strategy) == 0:
        taken_away = isinstance(want, Mapping) and all(value is None for value in want.values())
        return compare("reset", "reset" if taken_away else want)
    cut = cut_otherwise(given)
    asked = want if isinstance(want, Mapping) and want.keys() <= _KEYS.keys() else _KEYS
    return explained(lambda undone: _answer(given, strategy, asked, undone), want, ANCHORS, cut)


def _answer(
    given: Mapping[str, Any], strategy: Strategy, asked: Collection[str], undone: Collection[str]
) -> dict[str, Any]:
    """The peer computes batch as if nothing were predicted and nothing offered to mid."""
    predicted = _with_prediction(given)
    of_mid = _without(undone, (predicted, _unbounded(strategy) if "sold-once" in undone else strategy))
    found: dict[tuple[str, str], int] = {}
    for resource in ("cpu", "memory"):
        found["mid", resource] = node_offers(resource, *of_mid).mid.offered
        of_batch = without(undone, (predicted, strategy), resource)
        found["batch", resource] = node_offers(resource, *of_batch).batch.offered
    if "sold-once" in undone:
        alone = node_batch((snapshot_of(given) if "prediction-in-batch" in undone else predicted, strategy), undone)
        found |= {("batch", "cpu"): alone.cpu_milli, ("batch", "memory"): alone.memory_bytes}
    return {key: found[_KEYS[key]] for key in asked}


def _with_prediction(given: Mapping[str, Any]) -> NodeSnapshot:
    """Reclaimable = allocated - peak: the peak is what prod requested less what the case calls reclaimable. A
    predicted pod has a part of it that no case gives."""
    snapshot, reclaimable = snapshot_of(given), given["metrics"].get("prodReclaimable")
    if reclaimable is None:
        return snapshot
    allocated = Resources(prod_allocated("cpu", snapshot), prod_allocated("memory", snapshot))
    pods = tuple(replace(pod, predicted=Resources()) if _is_prod(pod) else pod for pod in snapshot.pods)
    return replace(snapshot, pods=pods, prod_peak=allocated - amounts(reclaimable))


def _beyond_requests(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    """What is called reclaimable beyond all requests is that of one more pod, on a node that is larger by it."""
    if snapshot.prod_peak is None:
        return snapshot, strategy
    extra = (Resources() - snapshot.prod_peak).at_least_zero()
    more = PodInput("beyond", "prod", "LS", extra, None, predicted=Resources())
    used = None if snapshot.node_usage is None else snapshot.node_usage + extra
    larger = replace(snapshot, capacity=snapshot.capacity + extra, node_usage=used)
    return replace(larger, pods=(*snapshot.pods, more), prod_peak=snapshot.prod_peak + extra), strategy


def _is_prod(pod: PodInput) -> bool:
    return tier_of(pod.tier) == "prod"


def _unbounded(strategy: Strategy) -> Strategy:
    return replace(strategy, cpu_reclaim_threshold_percent=10**6, memory_reclaim_threshold_percent=10**6)


def _of_capacity(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    return replace(snapshot, allocatable=snapshot.capacity), strategy


def _lse_lends(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    return replace(snapshot, pods=tuple(replace(pod, qos="LS") for pod in snapshot.pods)), strategy


def _by_prediction_alone(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    """Only where there is one: usage of prod is not looked at."""
    pods = tuple(replace(pod, usage=None) if pod.predicted is not None else pod for pod in snapshot.pods)
    return replace(snapshot, pods=pods), strategy


def _untagged_unseen(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    return replace(snapshot, host_apps=tuple(app for app in snapshot.host_apps if app.tier)), strategy


_UNDONE: Mapping[str, Callable[[NodeSnapshot, Strategy], Inputs]] = {
    "mid-of-allocatable": _of_capacity,
    "lse-reclaimable": _lse_lends,
    "prediction-in-batch": _by_prediction_alone,
    "untagged-host-applications": _untagged_unseen,
    "reclaimable-within-requests": _beyond_requests,
}
"""In this order: what is added last changes nothing of what the others look at."""
ANCHORS = tuple(dict.fromkeys((*_UNDONE, *BATCH_UNDONE)))


def _without(undone: Collection[str], inputs: Inputs) -> Inputs:
    for anchor, undo in _UNDONE.items():
        inputs = undo(*inputs) if anchor in undone else inputs
    return inputs


ADAPTORS: Mapping[str, Adaptor] = {
    "mid_calculate": offer_case(offers, OffersAnswer),
    "noderesource_calculate": offer_case(offers, OffersAnswer),
}
