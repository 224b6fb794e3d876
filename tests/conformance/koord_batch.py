"""Suites of batch resources in koord_colocation.json: the node, its zones, and what is kept back of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, combinations
from typing import Any

from koord_node import amounts, snapshot_of, strategy_of
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.colocation.domain.batch import batch_offer, request_policy
from slackwater.colocation.domain.degrade import remaining_share
from slackwater.colocation.domain.publishing import ThirdParty, normalised, parse_ratio, prepared
from slackwater.colocation.domain.reservation import annotated_reservation, kubelet_reservation, safety_margin
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.domain.strategy import Policy, Strategy
from slackwater.colocation.domain.zones import ZoneOffer, after_gate, divide, split, zone_offers
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources

KEYS = {"cpu": "batchCpu", "memory": "batchMem"}
Inputs = tuple[NodeSnapshot, Strategy]


def batch_calculate(case: Case) -> Verdict:
    """The node's offer and its zones'; what differs is asked again with only the named difference undone."""
    given, want = case["in"], wanted(case)
    if given is None or given.get("node") is None or given.get("strategy") is None:
        return not_covered("calls without arguments: the types do not allow them")
    if given.get("metrics") is None:
        return compare("reset", want)  # nothing is known: there is no snapshot, and nothing is offered
    inputs = snapshot_of(given), strategy_of(given["strategy"])
    if remaining_share(*inputs) == 0:
        return compare("reset", want)
    verdict = compare(answer(inputs), want)
    for undone in subsets((*UNDONE, *_RULES)) if verdict.word == "FAIL" else ():
        if compare(answer(without(undone, inputs), undone), want).word == "pass":
            return differ(*undone)
    return verdict


def answer(inputs: Inputs, undone: Collection[str] = ()) -> dict[str, Any]:
    """As the vectors say it."""
    snapshot, strategy = inputs
    offer = batch_offer(snapshot, strategy)
    node = Resources(offer.cpu.offered, offer.memory.offered)
    if "sold-once" in undone:
        by_request = [strategy.policy(each) is Policy.REQUEST for each in KEYS]
        alone = [request_policy(each, snapshot, strategy) for each in KEYS]
        both = zip(by_request, alone, (node.cpu_milli, node.memory_bytes), strict=True)
        node = Resources(*(requested if asked else other for asked, requested, other in both))
    limit = Resources(2**62, 2**62) if "zones-within-node" in undone else node
    zones = zone_offers(snapshot, strategy, limit)
    return said(node) | ({"zones": {zone.name: said(zone.batch) for zone in zones}} if zones else {})


def subsets(anchors: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The smallest first."""
    return chain.from_iterable(combinations(anchors, size) for size in range(1, len(anchors) + 1))


def without(undone: Collection[str], inputs: Inputs) -> Inputs:
    for anchor in undone:
        inputs = UNDONE[anchor](*inputs) if anchor in UNDONE else inputs
    return inputs


def said(batch: Resources) -> dict[str, int]:
    return {"batchCpu": batch.cpu_milli, "batchMem": batch.memory_bytes}


def _unmeasured_unseen(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    """By maxUsageRequest the peer does not see pods that were not measured."""
    return replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.usage is not None)), strategy


def _cpu_request_is_usage(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    return snapshot, replace(strategy, cpu_policy=Policy.USAGE)


def _untagged_apps_unseen(snapshot: NodeSnapshot, strategy: Strategy) -> Inputs:
    return replace(snapshot, host_apps=tuple(app for app in snapshot.host_apps if app.tier)), strategy


UNDONE: Mapping[str, Callable[[NodeSnapshot, Strategy], Inputs]] = {
    "unmeasured-by-request": _unmeasured_unseen,
    "cpu-by-request": _cpu_request_is_usage,
    "untagged-host-applications": _untagged_apps_unseen,
}
"""The rows of docs/differences.md that a case may differ by, and the inputs that have the peer's answer."""
_RULES = ("sold-once", "zones-within-node")
"""Rows that no input undoes: `answer` leaves them out."""


def margin(case: Case) -> Verdict:
    given = case["in"]
    strategy, capacity = strategy_of(given["strategy"]), amounts(given["capacity"])
    kept = {key: safety_margin(each, capacity, strategy) for key, each in (("cpu", "cpu"), ("mem", "memory"))}
    return compare(kept, wanted(case))


def named_reservation(case: Case) -> Verdict:
    """An amount that is not named is nothing kept; a list of CPUs that is none is refused, and nothing is kept."""
    given = case["in"] or {}
    try:
        kept = annotated_reservation(amounts(given.get("resources")), given.get("reservedCPUs") or "")
    except InvalidInput:
        kept = Resources()
    return compare(_without_zeros(kept), wanted(case) or {})


def kubelets_reservation(case: Case) -> Verdict:
    given = case["in"]
    if given is None:
        return compare({}, wanted(case))
    kept = kubelet_reservation(amounts(given.get("capacity")), amounts(given.get("allocatable")), None)
    return compare(_without_zeros(kept), {key: value for key, value in (wanted(case) or {}).items() if value})


def _without_zeros(kept: Resources) -> dict[str, int]:
    both = {"cpu": kept.cpu_milli, "mem": kept.memory_bytes}
    return {key: value for key, value in both.items() if value}


def smaller_of_both(case: Case) -> Verdict:
    """Ours always have both resources; one that is missing in either list is missing in the answer."""
    given = case["in"]
    first, second = given.get("a") or {}, given.get("b") or {}
    native = amounts(first).smaller_of(amounts(second))
    extended = _extended(first).smaller_of(_extended(second))
    found = {"cpu": native.cpu_milli, "mem": native.memory_bytes, **said(extended)}
    return compare({key: found[key] for key in first.keys() & second.keys()}, wanted(case) or {})


def _extended(given: Mapping[str, int]) -> Resources:
    return Resources(given.get("batchCpu", 0), given.get("batchMem", 0))


def numa_split(case: Case) -> Verdict:
    """A pod's request and usage, or the usage of one that nobody lists, over the zones."""
    given, want = case["in"], wanted(case)
    count, zones = given.get("numaNum", 0), tuple(given.get("podNuma") or ())
    parts = {key: _parts(given[key], count, zones) for key in ("request", "usage") if given.get(key) is not None}
    if isinstance(want, Mapping):
        return compare(parts, {key: part or [] for key, part in want.items()})
    return compare(parts["usage"] or None, want)


def _parts(whole: Mapping[str, int], count: int, zones: tuple[int, ...]) -> list[dict[str, int]]:
    return [{"cpu": part.cpu_milli, "mem": part.memory_bytes} for part in split(amounts(whole), count, zones)]


def divided(case: Case) -> Verdict:
    given = case["in"]
    part = divide(amounts(given["value"]), given["divisor"])
    found = {"cpu": part.cpu_milli, "mem": part.memory_bytes}
    return compare({key: found[key] for key in given["value"]}, wanted(case) or {})


def zones_added(case: Case) -> Verdict:
    given = case["in"]
    sums = [amounts(one) + amounts(other) for one, other in zip(given["a"] or (), given["b"] or (), strict=True)]
    return compare([{"cpu": each.cpu_milli, "mem": each.memory_bytes} for each in sums], wanted(case) or [])


def status(case: Case) -> Verdict:
    """What the node's status says of batch, and the values before others' parts, where there are others."""
    given, want = case["in"], wanted(case)
    others = [_third_party(each) for each in given.get("thirdParty") or ()]
    ratio = _ratio(given.get("cpuNormalizationRatio"))
    told = {
        key: prepared(_calculated(given, key), resource, others, ratio if resource == "cpu" else Decimal(1))
        for resource, key in KEYS.items()
    }
    found: dict[str, Any] = {"nodeStatus": {key: each.value for key, each in told.items()}}
    if others:
        found["originAnnotation"] = {key: each.origin for key, each in told.items()}
    if unknown := want.keys() - {"nodeStatus", "originAnnotation"}:
        return not_covered(f"answers named {', '.join(sorted(unknown))}")
    return compare(found | ({"originAnnotation": None} if "originAnnotation" in want and not others else {}), want)


def mid_status(case: Case) -> Verdict:
    """Mid as it was computed, or taken away; batch is not its concern."""
    given = case["in"]
    pairs = {"midCpu": "cpu", "midMem": "memory"}
    return compare({key: prepared(_calculated(given, key), each).value for key, each in pairs.items()}, wanted(case))


def _calculated(given: Mapping[str, Any], key: str) -> int | None:
    value: int | None = (given.get("calculated") or {}).get(key)
    return None if key in (given.get("resets") or ()) else value


def _third_party(given: Mapping[str, Any]) -> ThirdParty:
    return ThirdParty(given["name"], given.get("tier", ""), _extended(given.get("resources") or {}))


def _ratio(text: str | None) -> Decimal:
    """One that is refused changes nothing."""
    try:
        return Decimal(1) if text is None else parse_ratio(str(text))
    except InvalidInput:
        return Decimal(1)


def zone_status(case: Case) -> Verdict:
    """Zones as they say it after another computation, in normalised CPUs."""
    given, want = case["in"], wanted(case)
    ratio = _ratio(given.get("cpuNormalizationRatio"))
    computed = [
        ZoneOffer(name, Resources(normalised(each.get("batchCpu", 0), ratio), each.get("batchMem", 0)))
        for name, each in (given.get("zoneCalculated") or {}).items()
    ]
    old = {zone["name"]: _extended(zone) for zone in given.get("oldZones") or () if "batchCpu" in zone}
    told = after_gate(old, computed, given["resourceDiffThreshold"])
    return compare({"zones": {zone.name: said(zone.batch) for zone in told}}, want)


ADAPTORS: Mapping[str, Adaptor] = {
    "batch_calculate": batch_calculate,
    "batch_prepare": status,
    "batch_nrt_update": zone_status,
    "pod_numa_split": numa_split,
    "dangling_numa_split": numa_split,
    "divide": divided,
    "zone_add": zones_added,
    "safety_margin": margin,
    "node_anno_reservation": named_reservation,
    "kubelet_reservation": kubelets_reservation,
    "min_resource_list": smaller_of_both,
    "mid_prepare": mid_status,
}
