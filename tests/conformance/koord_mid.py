"""Suites of mid, and of mid and batch together, in koord_colocation.json."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from koord_batch import UNDONE as BATCH_UNDONE
from koord_batch import subsets
from koord_node import amounts, snapshot_of, strategy_of
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.colocation.domain.batch import batch_offer
from slackwater.colocation.domain.degrade import remaining_share
from slackwater.colocation.domain.mid import node_offers, prod_allocated
from slackwater.colocation.domain.snapshot import NodeSnapshot, PodUse, tier_of
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.quantities import Resources

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
    if given is None or given.get("node") is None:
        return not_covered("calls without arguments: the types do not allow them")
    if given.get("metrics") is None:
        return compare("reset", want)
    inputs = _with_prediction(snapshot_of(given), given["metrics"]), strategy_of(given["strategy"])
    if remaining_share(*inputs) == 0:
        taken_away = isinstance(want, Mapping) and all(value is None for value in want.values())
        return compare("reset", "reset" if taken_away else want)
    if not isinstance(want, Mapping):
        return compare(_answer(inputs, _KEYS), want)
    verdict = compare(_answer(inputs, want), want)
    for undone in subsets((*_UNDONE, "sold-once")) if verdict.word == "FAIL" else ():
        if compare(_answer(_without(undone, inputs), want, undone), want).word == "pass":
            return differ(*undone)
    return verdict


def _answer(inputs: Inputs, asked: Collection[str], undone: Collection[str] = ()) -> dict[str, Any]:
    snapshot, strategy = inputs
    found: dict[tuple[str, str], int] = {}
    alone = batch_offer(snapshot, strategy)
    for resource, batch in (("cpu", alone.cpu), ("memory", alone.memory)):
        both = node_offers(resource, snapshot, _unbounded(strategy) if "sold-once" in undone else strategy)
        found["mid", resource] = both.mid.offered
        found["batch", resource] = (batch if "sold-once" in undone else both.batch).offered
    return {key: found[_KEYS[key]] for key in asked}


def _with_prediction(snapshot: NodeSnapshot, metrics: Mapping[str, Any]) -> NodeSnapshot:
    """Reclaimable = allocated - peak: the peak is what prod requested less what the case calls reclaimable. Who is
    predicted has a part of it that no case tells."""
    reclaimable = metrics.get("prodReclaimable")
    if reclaimable is None:
        return snapshot
    allocated = Resources(prod_allocated("cpu", snapshot), prod_allocated("memory", snapshot))
    pods = tuple(replace(pod, predicted=Resources()) if _is_prod(pod) else pod for pod in snapshot.pods)
    return replace(snapshot, pods=pods, prod_peak=allocated - amounts(reclaimable))


def _is_prod(pod: PodUse) -> bool:
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


_UNDONE: Mapping[str, Callable[[NodeSnapshot, Strategy], Inputs]] = {
    "mid-of-allocatable": _of_capacity,
    "lse-reclaimable": _lse_lends,
    "prediction-in-batch": _by_prediction_alone,
    **BATCH_UNDONE,
}


def _without(undone: Collection[str], inputs: Inputs) -> Inputs:
    for anchor in undone:
        inputs = _UNDONE[anchor](*inputs) if anchor in _UNDONE else inputs
    return inputs


ADAPTORS: Mapping[str, Adaptor] = {"mid_calculate": offers, "noderesource_calculate": offers}
