"""Suites of koord_descheduler.json on descheduling: orders, protections, limits of a cycle, LowNodeLoad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pydantic import ValidationError
from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.descheduling.anomaly import AnomalyCondition, AnomalyState, after_round, marked
from slackwater.descheduling.cycle import CycleCounts, CycleLimits
from slackwater.descheduling.documents import DeschedulerProfile
from slackwater.descheduling.evictability import EVICT, EvictorSettings, protection
from slackwater.descheduling.low_node_load import (
    LowNodeLoadArgs,
    LowNodeLoadPool,
    argument_problems,
    eviction_reason,
    excess_of,
    select_nodes,
)
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.node_classes import NodeClass, NodeLoad
from slackwater.descheduling.placement import (
    KubeQos,
    PlacedPod,
    PlacementNode,
    admits,
    free_for_requests,
    requests_fit,
)
from slackwater.descheduling.pod_order import eviction_rank, in_eviction_order, relief
from slackwater.descheduling.target_search import TargetSearch
from slackwater.descheduling.thresholds import ThresholdPair, amount_of, node_score, usage_percent
from slackwater.model.placement_rules import LabelRequirement, NodeTaint
from slackwater.model.tiers import QoSClass, Tier, tier_of_priority
from slackwater.resources.selectors import Selector

_KUBE = {"BestEffort": KubeQos.BEST_EFFORT, "Burstable": KubeQos.BURSTABLE, "Guaranteed": KubeQos.GUARANTEED}
_FLAGS = ("local_storage", "mirror", "static", "terminating", "pvc")
_RESTLESS = RestRules(rest_s=0.0, loop_moves=2**31)


def pod_of(given: Mapping[str, Any]) -> PlacedPod:
    """A class that is not given follows from the label, the priority, the QoS, in this order, as in koordinator."""
    kube = _KUBE[given.get("k8s_qos", "Burstable")]
    qos = QoSClass(given["koord_qos"]) if given.get("koord_qos") else None
    labels = given.get("labels") or {}
    affinity = given.get("required_node_affinity_in")
    annotations = dict(given.get("annotations") or {})
    if given.get("evict_annotation"):
        annotations[EVICT[-1]] = "true"
    return PlacedPod(
        uid=given["name"],
        name=given["name"],
        namespace=given.get("namespace", "default"),
        node=given.get("node", ""),
        owner_kinds=given.get("owner_kinds", ("ReplicaSet",)),
        priority=given.get("priority"),
        tier=_tier(labels, given.get("priority"), qos, kube),
        qos=qos,
        kube_qos=kube,
        created_s=given.get("created", 0),
        requests=given.get("requests") or {},
        usage=given.get("usage"),
        phase=given.get("phase", "Running"),
        labels=labels,
        annotations=annotations,
        node_selector=given.get("node_selector") or {},
        affinity=[[LabelRequirement(affinity["key"], values=tuple(affinity["values"]))]] if affinity else (),
        **{flag: bool(given.get(flag)) for flag in _FLAGS},
    )


def _tier(labels: Mapping[str, str], priority: int | None, qos: QoSClass | None, kube: KubeQos) -> Tier | None:
    named = labels.get("koordinator.sh/priority-class", "").removeprefix("koord-")
    if named in set(Tier):
        return Tier(named)
    band = tier_of_priority(priority or 0)
    if band is not None:
        return band
    best_effort = qos is QoSClass.BE or (qos is None and kube is KubeQos.BEST_EFFORT)
    return Tier.BATCH if best_effort else Tier.PROD


def node_of(given: Mapping[str, Any]) -> PlacementNode:
    taints = [NodeTaint(each["key"], each.get("value", ""), each["effect"]) for each in given.get("taints", ())]
    return PlacementNode(
        given["name"],
        given.get("alloc", {}),
        labels=given.get("labels") or {},
        taints=taints,
        unschedulable=bool(given.get("unschedulable")),
    )


def pod_eviction_order(case: Case) -> Verdict:
    given = case["in"]
    pods, excess = [pod_of(each) for each in given["pods"]], given.get("excess") or {}
    groups = _groups(pods, excess, given.get("weights") or {})
    return compare(*([sorted(names) for names in order] for order in (groups, wanted(case))))


def _groups(pods: Sequence[PlacedPod], excess: Mapping[str, int], weights: Mapping[str, float]) -> list[list[str]]:
    ordered = in_eviction_order(pods, excess, weights)
    tied = groupby(ordered, key=lambda pod: (eviction_rank(pod), relief(pod.usage, excess, weights), pod.created_s))
    return [[pod.name for pod in group] for _, group in tied]


def pod_order_on_hot_node(case: Case) -> Verdict:
    given = case["in"]
    pods, excess = [pod_of(each) for each in given["pods"]], excess_of(given["node_usage"], given["high"])
    weights = given.get("weights") or dict.fromkeys(excess, 1)
    return compare([pod.name for pod in in_eviction_order(pods, excess, weights)], wanted(case))


def node_order(case: Case) -> Verdict:
    given = case["in"]
    sign = 1 if given["ascending"] else -1
    scores = {name: node_score(usage, given["alloc"], given["weights"]) for name, usage in given["usage"].items()}
    return compare(sorted(scores, key=lambda name: sign * scores[name]), wanted(case))


def score(case: Case) -> Verdict:
    given = case["in"]
    return compare(node_score(given["usage"], given["alloc"], given["weights"]), wanted(case))


def limits_of(given: Mapping[str, Any]) -> CycleLimits:
    """Limits of a cycle by either name: `total`, or `max_evict_total` as the settings of the peer have it."""
    names = ("total", "per_node", "per_namespace")
    return CycleLimits(*(given.get(name, given.get(f"max_evict_{name}")) for name in names))


def cycle_limits(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    counts = CycleCounts(limits_of(given))
    allow = []
    for namespace, node in given.get("seq") or ():
        allow.append(counts.refusal(namespace, node) is None)
        if allow[-1]:
            counts.record(namespace, node)
    per_node, per_namespace = dict(counts.per_node), dict(counts.per_namespace)
    got = {"allow": allow, "per_node": per_node, "per_namespace": per_namespace, "total": counts.total}
    return compare({name: got[name] for name in want}, want)


def node_limit(case: Case) -> Verdict:
    given = case["in"]
    counts = CycleCounts(CycleLimits(per_node=given.get("limit")))
    for _ in range(bounded(given.get("evicted") or 0)):
        counts.record("ns", "node")
    return compare(counts.refusal("ns", "node") is not None, wanted(case))


def evictable(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    config = dict(given.get("config") or {})
    fit = config.pop("node_fit", False)
    settings = EvictorSettings(**config)
    pod = pod_of(given["pod"])
    got = protection(pod, settings) is None
    if want and not got and given["pod"].get("evict_annotation"):
        return differ("evict-mark-keeps-protection")
    if got and fit and not given["pod"].get("evict_annotation"):
        others = [pod_of({"k8s_qos": "Burstable", **each}) for each in given.get("other_pods", ())]
        nodes = [node_of(each) for each in given.get("nodes", ())]
        got = any(
            admits(node, pod) and requests_fit(free_for_requests(node, pods_on(node, others)), pod)
            for node in nodes
            if node.name != pod.node
        )
    return compare(got, want)


def pods_on(node: PlacementNode, pods: Sequence[PlacedPod]) -> list[PlacedPod]:
    return [pod for pod in pods if pod.node == node.name]


def thresholds(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if "mean_pct" in given:
        pair = ThresholdPair(given["low_dev"], given["high_dev"]).completed(deviation=True).around(given["mean_pct"])
        return compare({side: _amounts(getattr(pair, side), given["alloc"]) for side in ("low", "high")}, want)
    if not isinstance(given.get("low") or {}, Mapping) or not isinstance(given.get("high") or {}, Mapping):
        return not_covered("thresholds of another form")
    pair = ThresholdPair(given.get("low") or {}, given.get("high") or {}).completed(
        deviation=bool(given.get("use_deviation"))
    )
    got: dict[str, Any] = {"low_pct": dict(pair.low), "high_pct": dict(pair.high)}
    if "alloc" in given:
        got |= {"low": _amounts(pair.low, given["alloc"]), "high": _amounts(pair.high, given["alloc"])}
    asked = {name: got[name] for name in want if name in got}
    verdict = compare(asked, dict(want))
    if verdict.word == "FAIL" and set(given.get("high") or {}) - set(given.get("low") or {}):
        return differ("high-without-low")
    return verdict


def _amounts(percents: Mapping[str, float], alloc: Mapping[str, int]) -> dict[str, int]:
    """Thresholds as amounts of a node, in the peer's units and names."""
    capacity = {name.removesuffix("_m"): amount for name, amount in alloc.items()}
    return {
        ("cpu_m" if name == "cpu" else name): amount_of(percent, capacity[name])
        for name, percent in ((name.removesuffix("_m"), percent) for name, percent in percents.items())
        if name in capacity
    }


def reason(case: Case) -> Verdict:
    given = case["in"]
    alloc, usage = (
        {name.removesuffix("_m"): amount for name, amount in given[each].items()} for each in ("alloc", "usage")
    )
    high = {name: amount_of(percent, alloc[name]) for name, percent in given["high_pct"].items()}
    return compare(eviction_reason(usage, alloc, high, prod=given["prod"]), wanted(case))


def pool_select(case: Case) -> Verdict:
    given = case["in"]
    selector = given["selector"]
    if selector and "$op" in selector:
        return _with_operator(selector["$op"], wanted(case))
    labels = None if selector is None else Selector(selector)
    chosen = select_nodes([node_of(each) for each in given["nodes"]], labels, set(given["processed"]))
    return compare([node.name for node in chosen], wanted(case))


def _with_operator(operator: str, want: Any) -> Verdict:
    pool = {"name": "all", "nodeSelector": {"matchExpressions": [{"key": "test", "operator": operator}]}}
    spec = {"lowNodeLoad": {"nodePools": [pool]}}
    document = {"kind": "DeschedulerProfile", "metadata": {"name": "p"}, "spec": spec}
    try:
        DeschedulerProfile.model_validate(document)
    except ValidationError as error:
        is_of_selector = any("matchExpressions" in each["loc"] for each in error.errors())
        return compare("error" if is_of_selector else str(error), want)
    return not_covered("nodes of an operator: the case gives no key and values")


def anomaly_rounds(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    condition = _condition(given.get("condition"))
    if "steps" in given:
        state, after = AnomalyState(), []
        for step in given["steps"]:
            is_over = step in ("over", "abnormal")
            state = AnomalyState() if step == "reset" else _over(state, condition, overloaded=is_over)
            after += [state.abnormal_since_s is not None] if is_over else []
        return compare({"abnormal_after_over": after}, want)
    states: dict[str, AnomalyState] = {}
    names: list[str] = []
    for names in given["rounds_of_over_high_nodes"]:
        known = [*names, *(name for name in states if name not in names)]
        states = {name: _over(states.get(name), condition, overloaded=name in names) for name in known}
    abnormal = [name for name in names if condition.at_once or states[name].abnormal_since_s is not None]
    return compare({"abnormal_in_last_round": abnormal}, want)


def _condition(given: Mapping[str, Any] | None) -> AnomalyCondition:
    """By either spelling; what is absent has the field's default, and no condition at all counts at once."""
    if given is None:
        return AnomalyCondition(1)
    usual = AnomalyCondition()
    return AnomalyCondition(
        given.get("consecutive_abnormalities") or given.get("abnormal") or usual.consecutive_abnormalities,
        given.get("consecutive_normalities", given.get("normal")) or 0
        if {"consecutive_normalities", "normal"} & given.keys()
        else usual.consecutive_normalities,
        given.get("timeout_s") or usual.timeout_s,
    )


def _over(state: AnomalyState | None, condition: AnomalyCondition, *, overloaded: bool) -> AnomalyState:
    return after_round(state, condition, overloaded=overloaded, cache_s=300.0, now_s=0.0)


def detector(case: Case) -> Verdict:
    given = case["in"]
    told = {"abnormal_at": ">5", "normal_at": ">3", **{name: str(at) for name, at in given.items() if at is not None}}
    counts = [
        int(told[name].removeprefix(">")) + 1
        if told[name].startswith(">") and not told[name].startswith(">=")
        else int(told[name].removeprefix(">="))
        for name in ("abnormal_at", "normal_at")
    ]
    state, shown = AnomalyState(), []
    for step, at_s in given["steps"]:
        state = marked(
            state,
            abnormal=step == "abnormal",
            abnormal_at=counts[0],
            normal_at=counts[1],
            timeout_s=given.get("timeout_s") or 60.0,
            now_s=at_s,
        )
        shown.append("ok" if state.abnormal_since_s is None else "anomaly")
    return compare(shown, wanted(case))


def percents(case: Case) -> Verdict:
    given = case["in"]
    found = usage_percent(given["usage"], given["alloc"])
    return compare({name: int(percent) for name, percent in found.items()}, wanted(case))


def headroom(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if "node_usage" not in given:
        return compare({"pod_filter_calls": 0, "evicted": 0}, want)
    high = given["high"]
    target = NodeLoad(
        PlacementNode("n", dict.fromkeys(high, 2**50)), (), given["node_usage"], {}, high, high, high, high
    )
    search = TargetSearch([target], {"n": NodeClass.BOTH_LOW}, {}, node_fit=False, margin=0.0)
    pod = PlacedPod("p", "p", "ns", "m", usage=given["pod_usage"])
    fits = search.reserve(pod, given["pod_usage"], 1.0, prod=False) is not None
    after = {
        name: amount + (given["pod_usage"].get(name, 0) if fits else 0) for name, amount in given["node_usage"].items()
    }
    got = {"fits": fits, "target_usage_after": after}
    return compare({name: got[name] for name in want}, want)


def validate(case: Case) -> Verdict:
    given = case["in"]

    def percents_of(name: str) -> dict[str, float]:
        value = given.get(name)
        return dict(value) if isinstance(value, Mapping) else {} if value is None else {"cpu": value}

    pool = LowNodeLoadPool(
        "all", percents_of("low"), percents_of("high"), percents_of("prod_low"), percents_of("prod_high")
    )
    condition = AnomalyCondition(given.get("consecutive_abnormalities", 5), given.get("consecutive_normalities", 3))
    args = LowNodeLoadArgs([pool], number_of_nodes=given.get("number_of_nodes", 0), anomaly=condition)
    settings = EvictorSettings(
        include_namespaces=frozenset(given.get("include") or ()),
        exclude_namespaces=frozenset(given.get("exclude") or ()),
    )
    return compare({"error": bool([*argument_problems(args), *settings.problems()])}, wanted(case))


def defaults(case: Case) -> Verdict:
    """What is left out, or null, has its default."""
    given, want = {name: value for name, value in case["in"].items() if value is not None}, wanted(case)
    names = {"node_fit": "node_fit", "detector_cache_timeout_s": "detector_cache_s"}
    names |= {"metric_expiration_s": "metric_expiration_s", "number_of_nodes": "number_of_nodes"}
    args = LowNodeLoadArgs((), **{names[name]: value for name, value in given.items() if name in names})
    condition = _condition(given.get("anomaly", given.get("anomaly_condition", {})))
    weights = given.get("weights") or {}
    got = {
        "node_fit": args.node_fit,
        "metric_expiration_s": args.metric_expiration_s,
        "detector_cache_timeout_s": args.detector_cache_s,
        "number_of_nodes": args.number_of_nodes,
        "anomaly": {
            "timeout_s": condition.timeout_s,
            "abnormal": condition.consecutive_abnormalities,
            "normal": condition.consecutive_normalities,
        },
        "weights": {name: weights.get(name, args.weights.get(name, 1)) for name in want.get("weights", ())},
    }
    return compare({name: got[name] for name in want if name in got}, want)


ADAPTORS: Mapping[str, Adaptor] = {
    "pod_eviction_order": pod_eviction_order,
    "pod_order_on_hot_node": pod_order_on_hot_node,
    "node_order_by_usage": node_order,
    "node_usage_score": score,
    "cycle_limits": cycle_limits,
    "node_limit_reached": node_limit,
    "evictable": evictable,
    "thresholds": thresholds,
    "eviction_reason": reason,
    "node_pool_select": pool_select,
    "anomaly_rounds": anomaly_rounds,
    "anomaly_detector": detector,
    "usage_percent": percents,
    "target_headroom": headroom,
    "validate_low_node_load": validate,
    "defaults_low_node_load": defaults,
}
