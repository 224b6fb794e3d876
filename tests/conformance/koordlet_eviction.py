"""Eviction suites of koordlet_qos.json: by satisfaction, by thresholds, by what was promised; order, marks, passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from crane_pods import START
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.analysis.analyzer import AnalyzerState, Excess
from slackwater.waterline.analysis.demands import ActionKind, Demand
from slackwater.waterline.cycle import CycleState, Options, run_cycle
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import ExecutorState, ReleaseLedger, Underway
from slackwater.waterline.facts.amounts import ZERO, exact
from slackwater.waterline.facts.eviction_marks import allows, eviction_policies, whole_number
from slackwater.waterline.facts.node import BestEffortCpu, MetricSeries, NodeReadings, ResourceConsumer, usage_shares
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering import chains as by
from slackwater.waterline.ordering.chains import (
    BEST_EFFORT_CPU,
    BEST_EFFORT_MEMORY,
    EVICTION_PRIORITY_CPU,
    ComparatorChain,
)
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule
from slackwater.waterline.registry.best_effort import (
    batch_cpu_request,
    batch_memory_request,
    check_needs_target,
    check_satisfaction,
    check_threshold,
    satisfaction,
)
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Dimension, Metric, MetricResource, Metrics

_UNBOUND = ActionLimits(evictions_per_cycle=None, evictions_per_hour=None)
_NODE = NodeReadings("n", START)
_TIERS = {"batch": Tier.BATCH, "mid": Tier.MID}


def _percent(number: float) -> Decimal:
    return exact(number) / 100


def _release(metric: Metric, view: NodeReadings, value: Decimal, target: Decimal) -> Decimal:
    """What the rule would ask for; nothing below its waterline."""
    readings = [exact(one.value) for one in metric.read(view)]
    if not readings or readings[0] < value or (readings[0] == value and not metric.reached_counts):
        return ZERO
    return max(ZERO, metric.release(view, readings[0], target) or ZERO)


# ---- how much


def be_satisfaction(case: Case) -> Verdict:
    """A window without a value of its own is one collect interval: its samples always suffice."""
    given, want = case["in"], wanted(case)
    gate = _percent(given.get("usage_threshold", 90))
    metric = satisfaction("shortfall", gate=gate, by_allocatable=given["policy"] == "allocatable")
    allocatable = given.get("batch_cpu_allocatable")
    view = replace(
        _NODE,
        best_effort_window=_best_effort(given.get("avg"), allocatable),
        best_effort_last=_best_effort(given.get("cur"), allocatable),
    )
    value, target = 1 - _percent(given["lower"]), 1 - _percent(given["upper"])
    return _exactly({"release_milli": int(_release(metric, view, value, target))}, want, "release_milli")


def _best_effort(given: Mapping[str, Any] | None, allocatable: int | None) -> BestEffortCpu | None:
    if given is None or not given.get("count", 1):
        return None
    return BestEffortCpu(given["used"], given["req"], given["limit"], allocatable)


def _exactly(got: Mapping[str, int], want: Mapping[str, Any], key: str) -> Verdict:
    verdict = compare(dict(got), {key: want[key]})
    if verdict.word == "FAIL" and isinstance(want[key], int | float) and abs(want[key] - got[key]) <= 1:
        return differ("exact-percent")
    return verdict


def cpu_used(case: Case) -> Verdict:
    given = case["in"]
    capacity = int(given["cap_cores"] * 1000)
    view = replace(_NODE, capacity_milli=capacity, readings={"node_cpu_usage": _series(given["node_used"], 1000)})
    return _threshold("batch_cpu_threshold", view, case, "release_milli")


def memory_used(case: Case) -> Verdict:
    given = case["in"]
    view = replace(_NODE, capacity_bytes=given["cap"], readings={"node_memory_usage": _series(given["used"], 1)})
    return _threshold("batch_memory_threshold", view, case, "release_bytes")


def _series(value: Any, factor: int) -> tuple[MetricSeries, ...]:
    return (MetricSeries(exact(value) * factor),)


def _threshold(name: str, view: NodeReadings, case: Case, key: str) -> Verdict:
    given, want = case["in"], wanted(case)
    threshold = given["threshold"]
    lower = given.get("lower")
    target = _percent(threshold - 2 if lower is None else lower)
    released = _release(_metric(name), view, _percent(threshold), target)
    return _exactly({key: int(released)}, want, key)


def _metric(name: str) -> Metric:
    metric = BUILT_IN.get(name)
    assert metric is not None
    return metric


def allocatable(case: Case) -> Verdict:
    """Per tier. What a node does not offer at all is unknown to us, and evicts no pod."""
    given, want = case["in"], wanted(case)
    is_cpu, offered = given["kind"] == "cpu", given["allocatable"]
    counted = [one for one in given["pods"] if one["priority"] <= given["priority_threshold"]]
    pods = tuple(_promised_to(one, is_cpu) for one in counted)
    view = replace(
        _NODE,
        pods=pods,
        extended_cpu_allocatable_milli=offered.get("batch"),
        extended_memory_allocatable_bytes=offered.get("batch"),
        mid_cpu_allocatable_milli=offered.get("mid"),
        mid_memory_allocatable_bytes=offered.get("mid"),
    )
    released = {tier: _tier_release(tier, is_cpu, view, given) for tier in _TIERS}
    got = {tier: int(amount) for tier, amount in released.items() if amount > 0}
    credited = {one["name"]: one["request"] for one in counted if got.get(one["cls"])}
    verdict = compare({"release": got, "pods": credited}, {key: want[key] for key in ("release", "pods")})
    if verdict.word == "FAIL" and set(want["release"]) - set(offered):
        return differ("unknown-allocatable")
    return verdict


def _tier_release(tier: str, is_cpu: bool, view: NodeReadings, given: Mapping[str, Any]) -> Decimal:
    metric = _metric(f"{tier}_{'cpu' if is_cpu else 'memory'}_requested_ratio")
    return _release(metric, view, _percent(given["threshold"]), _percent(given["lower"]))


def _promised_to(given: Mapping[str, Any], is_cpu: bool) -> PodUse:
    pod = PodUse(given["name"], given["name"], tier=_TIERS.get(given["cls"]), priority=given["priority"])
    if is_cpu:
        return replace(pod, extended_cpu_request_milli=given["request"])
    return replace(pod, extended_memory_request_bytes=given["request"])


def filter_used(case: Case) -> Verdict:
    """`nonBE`: pods that are not best effort; `nonBatch`: without tiers the same."""
    given, want = case["in"], wanted(case)

    def consumers(parts: Sequence[Mapping[str, Any]]) -> list[ResourceConsumer]:
        return [ResourceConsumer(one["used"], one["qos"] != "BE") for one in parts]

    shares = usage_shares(
        given["node_used"], given["reserved"], consumers(given["pods"]), consumers(given.get("host_apps", ()))
    )
    got = {"pods": shares.pods, "host_apps": shares.host_applications, "system": shares.system}
    return compare({key: float(got[key]) for key in want}, want)


# ---- victims and their order


def sort(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if given["mode"] != "by_priority":
        chain = BEST_EFFORT_CPU if given["mode"] == "be_cpu" else BEST_EFFORT_MEMORY
        pods = [_pod(one, number) for number, one in enumerate(given["pods"]) if one["qos"] == "BE"]
        return compare([pod.name for pod in chain.order(pods)], want["order"])
    kept = [
        _pod(one, number)
        for number, one in enumerate(given["pods"])
        if one.get("phase") not in ("Failed", "Succeeded")
        and one.get("evict_enabled") == "true"
        and one["priority"] <= given["priority_threshold"]
        and one.get("used") is not None
    ]
    return compare([pod.name for pod in EVICTION_PRIORITY_CPU.order(kept)], want["order"])


def _pod(given: Mapping[str, Any], number: int) -> PodUse:
    return PodUse(
        uid=f"{number:04}",
        name=given["name"],
        qos=QoSClass(given["qos"]) if given.get("qos") else None,
        tier=Tier.BATCH if given.get("qos") == "BE" else None,
        priority=given.get("priority"),
        cpu_usage_milli=given.get("used"),
        memory_usage_bytes=given.get("used"),
        cpu_request_milli=given.get("request", 0),
        eviction_priority=whole_number(given.get("eviction_priority")) or 0,
        label_priority=whole_number(given.get("label_priority")),
    )


def memory_select(case: Case) -> Verdict:
    """The whole framework: a node, a threshold with a lower target, BE pods as candidates."""
    given, want = case["in"], wanted(case)
    pods = [_pod(one, number) for number, one in enumerate(given["pods"])]
    threshold = given["threshold"]
    target = _percent(given["lower"] if given.get("lower") is not None else threshold - 2)
    rule = Rule("koord", "memory", "batch_memory_threshold", _percent(threshold), target, "evict")

    def evicted(used: float) -> list[str]:
        readings = {"node_memory_usage": _series(used, 1)}
        view = replace(_NODE, capacity_bytes=given["cap"], readings=readings, pods=tuple(pods))
        return _evicted(view, (rule,), BUILT_IN)

    verdict = compare(evicted(given["used"]), want["evicted"])
    if verdict.word == "FAIL":  # the peer counts down from whole percents of the node
        whole = given["used"] * 100 // given["cap"] * given["cap"] // 100
        return differ("exact-percent") if compare(evicted(whole), want["evicted"]).word == "pass" else verdict
    return verdict


def _evicted(view: NodeReadings, rules: Sequence[Rule], metrics: Metrics, leaving: Sequence[str] = ()) -> list[str]:
    every = PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=("evict",))
    policies = Policies((NodePolicy("koord", tuple(rules)),), (PolicyAction("evict", evicts=True),), (every,))
    until = START.replace(year=START.year + 1)
    state = CycleState(AnalyzerState(), ExecutorState(tuple(Underway(uid, until) for uid in leaving)))
    options = Options(excess=Excess(ZERO), limits=_UNBOUND)
    cycle = run_cycle(view, policies, state, START, options=options, metrics=metrics)
    return [step.name for step in cycle.plan.of(ActionKind.EVICT)]


def kill(case: Case) -> Verdict:
    """Each task becomes metrics of its own, one per resource, worked off in the order of the tasks."""
    given, want = case["in"], wanted(case)
    pods = {one["name"]: one for one in given["pods"]}
    metrics, rules, readings = [], [], {}
    for number, task in enumerate(given["tasks"]):
        for resource, amount in task["to_release"].items():
            name = f"{task['target']}-{resource}"
            metrics.append(_task_metric(name, 9 - number, task, resource, pods))
            rules.append(Rule("koord", name, name, Decimal(1), ZERO, "evict"))
            readings[name] = (MetricSeries(amount),)
    uses = tuple(PodUse(name, name, tier=Tier.BATCH, qos=QoSClass.BE) for name in pods)
    view = replace(_NODE, readings=readings, pods=uses)
    evicted = _evicted(view, rules, Metrics.of(*metrics), given.get("already_evicted", ()))
    gone = {*evicted, *given.get("already_evicted", ())}
    released: dict[str, dict[str, int]] = {}
    for task in given["tasks"]:
        amounts = [_amounts(pods[name], task) for name in gone]
        names = {resource for each in amounts for resource in each}
        released[task["target"]] = {name: sum(each.get(name, 0) for each in amounts) for name in names}
    got = {"evicted": evicted, "newly_evicted": bool(evicted), "released": released}
    return compare({key: got[key] for key in want}, want)


def _amounts(pod: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, int]:
    if task["unit"] == "mem_used":
        return {"memory": pod["mem_used"]}
    return dict(pod.get("req", {}))


def _task_metric(
    name: str, priority: int, task: Mapping[str, Any], resource: str, pods: Mapping[str, Mapping[str, Any]]
) -> Metric:
    order = {pod: place for place, pod in enumerate(task["order"])}

    def evict(pod: PodUse) -> Decimal:
        return Decimal(_amounts(pods[pod.name], task).get(resource, 0))

    return Metric(
        name,
        Dimension.NUMBER,
        MetricResource.OTHER,
        action_priority=priority,
        sort=ComparatorChain("task", (by.Comparator("as listed", lambda pod: order.get(pod.name, len(order))),)),
        evictable=True,
        evict=evict,
        evict_quantified=True,
    )


# ---- marks, requests, differences of amounts


def policy_allowed(case: Case) -> Verdict:
    given = case["in"]
    return compare({"allowed": allows(eviction_policies(given["annotation"]), given["policy"])}, wanted(case))


def pod_request(case: Case) -> Verdict:
    """What a pod frees, by its tier: batch resources for pods that hold them, plain ones for the others."""
    given, want = case["in"], wanted(case)
    tier, resource = given["priority_class"], given["resource"]
    name = f"{tier}-{resource}" if tier in _TIERS else resource
    total = sum((max(ZERO, exact(one.get(name, 0))) for one in given["containers"]), ZERO)
    if name == "cpu":
        pod = PodUse("u", "p", cpu_request_milli=int(total * 1000))
        return compare({"resource": name, "value": pod.cpu_request_milli}, want)
    if resource == "cpu":
        value = batch_cpu_request(PodUse("u", "p", extended_cpu_request_milli=int(total)))
    else:
        value = batch_memory_request(PodUse("u", "p", extended_memory_request_bytes=int(total)))
    return compare({"resource": name, "value": int(value or 0)}, want)


def subtracted(case: Case) -> Verdict:
    """What stays open, as the executor's ledger has it: never below nothing."""
    given = case["in"]
    return compare({"r": _left(given["a"], given["b"])}, wanted(case))


def task_check(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    left = _left(given["to_release"], given["released"].get(given["target"]))
    return compare({"done": not left, "remaining": left or None}, {**want, "remaining": want["remaining"] or None})


def _left(asked: Mapping[str, Any] | None, done: Mapping[str, Any] | None) -> dict[str, Any]:
    ledger = ReleaseLedger()
    ledger.credit({name: exact(amount) for name, amount in (done or {}).items()})
    left = {name: ledger.open(_demand(name, exact(amount))) for name, amount in (asked or {}).items()}
    return {name: int(amount) for name, amount in left.items() if amount > 0}


def _demand(name: str, gap: Decimal) -> Demand:
    return Demand(ActionKind.EVICT, Metric(name, Dimension.NUMBER), (), ZERO, ZERO, gap, ())


# ---- what is refused

_PARTS: Mapping[str, tuple[str, str, str | None]] = {
    "BECPUEvict": ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent", None),
    "CPUEvict": ("cpuEvictThresholdPercent", "cpuEvictLowerPercent", "evictEnabledPriorityThreshold"),
    "BEMemoryEvict": ("memoryEvictThresholdPercent", "memoryEvictLowerPercent", None),
    "MemoryEvict": ("memoryEvictThresholdPercent", "memoryEvictLowerPercent", "evictEnabledPriorityThreshold"),
    "CPUAllocatableEvict": (
        "cpuAllocatableEvictThresholdPercent",
        "cpuAllocatableEvictLowerPercent",
        "allocatableEvictPriorityThreshold",
    ),
    "MemoryAllocatableEvict": (
        "memoryAllocatableEvictThresholdPercent",
        "memoryAllocatableEvictLowerPercent",
        "allocatableEvictPriorityThreshold",
    ),
}
_LARGEST_BUT_PROD = 7999


def config_check(case: Case) -> Verdict:
    """Whether the rule that such a configuration is here would be refused. The words are our own."""
    given, want = case["in"], wanted(case)
    wrong = _problem(given["feature"], given["cfg"])
    if wrong is None and want["error"] is not None and _is_about_priority(given["feature"], given["cfg"]):
        return differ("priority-by-podqos")
    if (wrong is None) != (want["error"] is None):
        return Verdict("FAIL", f"got {wrong!r}, want {want['error']!r}")
    return Verdict("pass") if wrong is None else differ("refused-in-own-words")


def _problem(feature: str, config: Mapping[str, Any] | None) -> str | None:
    if feature not in _PARTS:
        return "there is no such metric"
    if config is None:
        return "no rule"
    value, target = (config.get(name) for name in _PARTS[feature][:2])
    if value is None:
        return "a rule needs a value"
    if feature == "BECPUEvict":
        return check_satisfaction(1 - _percent(value), None if target is None else 1 - _percent(target))
    check = check_needs_target if "Allocatable" in feature else check_threshold
    return check(_percent(value), None if target is None else _percent(target))


def _is_about_priority(feature: str, config: Mapping[str, Any]) -> bool:
    """Refused there for the priority up to which pods are evicted; here PodQOS selects pods, and prod is protected."""
    name = _PARTS[feature][2]
    if name is None:
        return False
    priority = config.get(name)
    return priority is None or ("Allocatable" in feature and priority > _LARGEST_BUT_PROD)


ADAPTORS: Mapping[str, Adaptor] = {
    "filter_used": filter_used,
    "evict_be_satisfaction": be_satisfaction,
    "evict_cpu_used": cpu_used,
    "evict_allocatable": allocatable,
    "evict_sort": sort,
    "evict_config_check": config_check,
    "evict_mem_used": memory_used,
    "evict_mem_select": memory_select,
    "evict_policy_allowed": policy_allowed,
    "evict_pod_request": pod_request,
    "evict_task_check": task_check,
    "evict_sub": subtracted,
    "evict_kill": kill,
}
