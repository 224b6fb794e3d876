"""Suites of batch resources in koord_colocation.json: the node, its zones, and what is kept back of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, combinations
from typing import Any

from koord_node import amounts, snapshot_of, strategy_of
from koord_shapes import BatchAnswer, offer_case
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.batch import batch_offer
from slackwater.offers.degradation import remaining_share
from slackwater.offers.reservation import annotated_reservation, kubelet_reservation, safety_margin
from slackwater.offers.reserved_amounts import ThirdParty, normalised, parse_ratio, prepared
from slackwater.offers.snapshot import NodeSnapshot, percent_of
from slackwater.offers.strategy import CountingPolicy, Strategy
from slackwater.offers.zones import NumaZoneOffer, after_gate, divide, split, zone_offers

_MOST_CUT = 3
"""An offer is made of up to three percentages: margin, share and threshold."""
KEYS = {"cpu": "batchCpu", "memory": "batchMem"}
Inputs = tuple[NodeSnapshot, Strategy]


def batch_calculate(case: Case) -> Verdict:
    """The node's offer and its zones'; what differs is asked again with only the named difference undone."""
    given, want = case["in"], wanted(case)
    if given is None or given.get("node") is None or given.get("strategy") is None:
        return differ("typed-arguments")
    if given.get("metrics") is None:
        return compare("reset", want)  # nothing is known: there is no snapshot, and nothing is offered
    inputs = snapshot_of(given), strategy_of(given["strategy"])
    if remaining_share(*inputs) == 0:
        return compare("reset", want)
    return explained(lambda undone: answer(inputs, undone), want, ANCHORS, cut_otherwise(given))


def explained(
    ask: Callable[[Collection[str]], Any], want: Any, anchors: Sequence[str], cut_otherwise: bool = False
) -> Verdict:
    """Passes with nothing undone; differs by the fewest anchors that, undone, give exactly what is wanted.

    `cut_otherwise`: up to the units that percentages cut in binary floating point are off by.
    """
    verdict = compare(ask(()), want)
    if verdict.word == "pass":
        return verdict
    for undone in subsets(anchors):
        if compare(ask(undone), want).word == "pass":
            return differ(*undone)
    for undone in ((), *subsets(anchors)) if cut_otherwise else ():
        if _within_units(ask(undone), want):
            return differ(*undone, "exact-percent")
    return verdict


def cut_otherwise(given: Mapping[str, Any]) -> bool:
    """Whether one of the strategy's percentages, cut in binary floating point, is another amount than the exact one."""
    strategy, node = given["strategy"], given["node"]
    percents = [value for name, value in strategy.items() if name.endswith("Percent")]
    percents += [100 - value for name, value in strategy.items() if name.endswith("ReclaimThresholdPercent")]
    wholes = [each.get(key, 0) for each in (node["capacity"], *given.get("zones", ())) for key in ("cpu", "mem")]
    return any(int(whole * (percent / 100)) != percent_of(whole, percent) for whole in wholes for percent in percents)


def _within_units(got: Any, want: Any) -> bool:
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return got.keys() == want.keys() and all(_within_units(got[key], want[key]) for key in want)
    return isinstance(got, int) and isinstance(want, int) and abs(got - want) <= _MOST_CUT


def answer(inputs: Inputs, undone: Collection[str] = ()) -> dict[str, Any]:
    """As the vectors say it."""
    node = node_batch(inputs, undone)
    zones = _zones(inputs, node, undone)
    return said(node) | ({"zones": {name: said(batch) for name, batch in zones.items()}} if zones else {})


def node_batch(inputs: Inputs, undone: Collection[str] = ()) -> Resources:
    offers = {each: batch_offer(*without(undone, inputs, each)) for each in KEYS}
    return Resources(offers["cpu"].cpu.offered, offers["memory"].memory.offered)


def _zones(inputs: Inputs, node: Resources, undone: Collection[str]) -> Mapping[str, Resources]:
    """The peer sees pods that were not measured in its zones, whatever it sees at the node."""
    limit = Resources(2**70, 2**70) if "zones-within-node" in undone else node
    of_zones = [anchor for anchor in undone if anchor != "unmeasured-by-request"]
    cpu, memory = (zone_offers(*without(of_zones, inputs, each), limit) for each in KEYS)
    return {
        one.name: Resources(one.batch.cpu_milli, other.batch.memory_bytes)
        for one, other in zip(cpu, memory, strict=True)
    }


def subsets(anchors: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The smallest first."""
    return chain.from_iterable(combinations(anchors, size) for size in range(1, len(anchors) + 1))


def without(undone: Collection[str], inputs: Inputs, resource: str) -> Inputs:
    """The inputs with which our own formula has the peer's answer about one resource."""
    for anchor in UNDONE:
        inputs = UNDONE[anchor](*inputs, resource) if anchor in undone else inputs
    return inputs


def said(batch: Resources) -> dict[str, int]:
    return {"batchCpu": batch.cpu_milli, "batchMem": batch.memory_bytes}


def _cpu_request_is_usage(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> Inputs:
    """By `request` the peer counts CPU as by `usage`."""
    return snapshot, replace(
        strategy, cpu_policy=CountingPolicy.USAGE
    ) if strategy.cpu_policy is CountingPolicy.REQUEST else strategy


def _unmeasured_unseen(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> Inputs:
    """By maxUsageRequest the peer does not see pods that were not measured."""
    if strategy.policy(resource) is not CountingPolicy.MAX_USAGE_REQUEST:
        return snapshot, strategy
    return replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.usage is not None)), strategy


def _untagged_apps_unseen(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> Inputs:
    return replace(snapshot, host_apps=tuple(app for app in snapshot.host_apps if app.tier)), strategy


def _lse_by_request(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> Inputs:
    """The peer does not look at what LSE pods that it lists use of their CPU."""
    if resource != "cpu" or strategy.cpu_policy is not CountingPolicy.USAGE:
        return snapshot, strategy
    pods = (replace(pod, usage=None) if pod.qos == "LSE" and pod.listed else pod for pod in snapshot.pods)
    return replace(snapshot, pods=tuple(pods)), strategy


def _by_requests_alone(snapshot: NodeSnapshot, strategy: Strategy, resource: str) -> Inputs:
    """By `request` the peer looks at no usage at all: then what requests leave is what usage leaves."""
    if strategy.policy(resource) is not CountingPolicy.REQUEST:
        return snapshot, strategy
    pods = tuple(replace(pod, usage=None) for pod in snapshot.pods if pod.listed)
    return replace(snapshot, pods=pods, system=None, host_apps=()), strategy


UNDONE: Mapping[str, Callable[[NodeSnapshot, Strategy, str], Inputs]] = {
    "cpu-by-request": _cpu_request_is_usage,
    "unmeasured-by-request": _unmeasured_unseen,
    "untagged-host-applications": _untagged_apps_unseen,
    "lse-by-larger-use": _lse_by_request,
    "sold-once": _by_requests_alone,
}
"""The rows of docs/differences.md that a case may differ by, and the inputs that have the peer's answer."""
ANCHORS = (*UNDONE, "zones-within-node")


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
    """A pod's request and usage, or the usage of an unlisted pod, over the zones."""
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
        NumaZoneOffer(name, Resources(normalised(each.get("batchCpu", 0), ratio), each.get("batchMem", 0)))
        for name, each in (given.get("zoneCalculated") or {}).items()
    ]
    old = {zone["name"]: _extended(zone) for zone in given.get("oldZones") or () if "batchCpu" in zone}
    told = after_gate(old, computed, given["resourceDiffThreshold"])
    return compare({"zones": {zone.name: said(zone.batch) for zone in told}}, want)


ADAPTORS: Mapping[str, Adaptor] = {
    "batch_calculate": offer_case(batch_calculate, BatchAnswer),
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
