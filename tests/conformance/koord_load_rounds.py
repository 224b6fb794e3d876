"""Rounds of low_node_load in koord_descheduler.json, and by which differences they are not the peer's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import peer_low_node_load
from koord_batch import subsets
from koord_low_node_load import limits_of, node_of, pod_of, pods_on
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.descheduling.anomaly import AnomalyCondition
from slackwater.descheduling.builtin import DefaultEvictor
from slackwater.descheduling.cycle import CycleGate
from slackwater.descheduling.evictability import EvictorSettings
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool, balance, pool_loads
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import ClusterPlacement, PlacedPod

_RESTLESS = RestRules(rest_s=0.0, loop_moves=2**31)


def low_node_load(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    nodes, pods = [node_of(each) for each in given["nodes"]], [pod_of(each) for each in given["pods"]]
    pool = LowNodeLoadPool(
        "all",
        given.get("low") or {},
        given.get("high") or {},
        given.get("prod_low") or {},
        given.get("prod_high") or {},
        use_deviation=bool(given.get("use_deviation")),
    )
    consecutive = given.get("anomaly_consecutive_abnormalities") or 1
    args = LowNodeLoadArgs(
        [pool],
        number_of_nodes=given.get("number_of_nodes", 0),
        node_fit=given.get("node_fit", True),
        anomaly=AnomalyCondition(consecutive),
        margin=0.0,
    )
    namespaces = given.get("evictable_namespaces") or {}
    settings = EvictorSettings(
        include_namespaces=frozenset(namespaces.get("include", ())),
        exclude_namespaces=frozenset(namespaces.get("exclude", ())),
    )
    cluster = ClusterPlacement(nodes, {node.name: pods_on(node, pods) for node in nodes})
    plan = balance(cluster, args, {}, 0.0, gate_of(settings, given))
    ours = sorted(proposal.pod.name for proposal in plan.proposals)
    classes = {name: str(each) for name, each in plan.classes.items()}
    verdict = _moved(ours, classes, want)
    if verdict.word == "pass":
        return verdict
    for undone in subsets(peer_low_node_load.OURS):
        gone = peers_round(cluster, args, gate_of(settings, given), undone)
        if _moved(gone, classes, want).word == "pass":
            return differ(*undone)
    lowless = {name: set(given.get(f"{name}high") or {}) - set(given.get(f"{name}low") or {}) for name in ("", "prod_")}
    if any(lowless.values()):
        kept = {f"{name}high": _without(given.get(f"{name}high") or {}, gone) for name, gone in lowless.items()}
        peers = low_node_load({**case, "in": {**given, **kept}})
        return peers if peers.word == "FAIL" else differ("high-without-low", *peers.anchors)
    return verdict


def _without(percents: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    return {name: percent for name, percent in percents.items() if name not in names}


def peers_round(
    cluster: ClusterPlacement, args: LowNodeLoadArgs, gate: CycleGate, undone: Collection[str]
) -> list[str]:
    """Names of the pods that a round evicts with the peer's way for the differences in `undone`."""

    def evicts(pod: PlacedPod) -> bool:
        is_allowed = gate.allows(pod)
        if is_allowed:
            gate.record(pod)
        return is_allowed

    kept = [name for name in peer_low_node_load.OURS if name not in undone]
    return sorted(peer_low_node_load.round_of(pool_loads(cluster, args), args, gate.allows, evicts, kept))


def gate_of(settings: EvictorSettings, given: Mapping[str, Any]) -> CycleGate:
    return CycleGate([DefaultEvictor(settings)], limits_of(given), {}, _RESTLESS, {}, 0.0)


def _moved(names: Sequence[str], classes: Mapping[str, str], want: Mapping[str, Any]) -> Verdict:
    got: dict[str, Any] = {"evicted_count": len(names), "classes": classes, "evicted_set": list(names)}
    return compare({name: got[name] for name in want if name in got}, {**want, **_sorted_set(want)})


def _sorted_set(want: Mapping[str, Any]) -> dict[str, Any]:
    return {"evicted_set": sorted(want["evicted_set"])} if "evicted_set" in want else {}


ADAPTORS: Mapping[str, Adaptor] = {"low_node_load": low_node_load}
