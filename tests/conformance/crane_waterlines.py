"""Sorting, waterlines, gaps, quotas and whole passes of crane.json."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from crane_pods import START, bounds_of, named, pod_of, rule_of, view_of
from koord_batch import subsets
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.waterline.actuation.cpu_quota import (
    QuotaChange,
    RestoreBounds,
    milli_of,
    restore_cpu,
    throttle_cpu,
)
from slackwater.waterline.analysis.demands import gap_of, headroom_of
from slackwater.waterline.analysis.sample_counters import RuleState, judge
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.ordering import chains as by
from slackwater.waterline.ordering.chains import (
    CPU,
    CPU_BORROWERS_FIRST,
    MEMORY_BORROWERS_FIRST,
    PRIORITY_FIRST,
    ComparatorChain,
)
from slackwater.waterline.policies.quantity import percentage, quantity
from slackwater.waterline.registry.built_in import BUILT_IN

_SIXTY_CORES = Decimal(60_000)
"""Where the peer meant a quota to become unlimited again; ours is the node's capacity."""

# ---- sorting


def _sorted(chain: ComparatorChain, *others: tuple[ComparatorChain, str]) -> Adaptor:
    """By one of our chains; where another recombination gives the peer's order, that is the difference."""

    def judge_case(case: Case) -> Verdict:
        pods = [pod_of(one, number) for number, one in enumerate(case["in"]["pods"])]
        want = wanted(case)["order"]
        verdict = compare(_names(chain.order(pods)), want)
        for other, anchor in others:
            if verdict.word == "FAIL" and _names(other.order(pods)) == want:
                return differ(anchor)
        return verdict

    return judge_case


def _names(pods: Iterable[PodUse]) -> list[str]:
    return [pod.name for pod in pods]


def _turned(chain: ComparatorChain, *comparators: by.Comparator) -> ComparatorChain:
    parts = tuple(one.turned() if one in comparators else one for one in chain.comparators)
    return ComparatorChain(f"{chain.name}, turned", parts)


_ASCENDING = _turned(CPU, by.CPU_USAGE)
_COMPARATORS = {
    "UseElasticCPU": by.HOLDS_EXTENDED_CPU,
    "UseElasticMem": by.HOLDS_EXTENDED_MEMORY,
    "ComparePriority": by.PRIORITY,
    "ComparePodQOSClass": by.QOS_CLASS,
    "CompareCPUUsage": by.CPU_USAGE,
    "CompareMemUsage": by.MEMORY_USAGE,
    "CompareElasticCPU": by.EXTENDED_CPU_USAGE,
    "CompareElasticMem": by.EXTENDED_MEMORY_USAGE,
    "CompareRunningTime": by.RUNNING_TIME,
}


def comparator(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    ours, one, other = _COMPARATORS[given["func"]], pod_of(given["a"]), pod_of(given["b"], 1)
    verdict = _both_ways(ours, one, other, want)
    if verdict.word == "FAIL" and ours in (by.EXTENDED_CPU_USAGE, by.EXTENDED_MEMORY_USAGE):
        peers = _both_ways(ours.turned(), one, other, want)
        return differ("extended-ratio-highest-first") if peers.word == "pass" else verdict
    return verdict


def _both_ways(ours: by.Comparator, one: PodUse, other: PodUse, want: Mapping[str, Any]) -> Verdict:
    return compare({"cmp_ab": ours.compare(one, other), "cmp_ba": ours.compare(other, one)}, want)


# ---- waterlines and gaps


def smallest(case: Case) -> Verdict:
    pushed, want = case["in"]["push"], wanted(case)
    got = {
        "smallest_after_each_push": [min(pushed[: count + 1], key=quantity) for count in range(len(pushed))],
        "pop_order": sorted(pushed, key=quantity),
    }
    return compare({key: got[key] for key in want}, want)


def gaps(case: Case) -> Verdict:
    """The newer form has one map; `mode` says which directions are asked for."""
    given, want = case["in"], wanted(case)["gaps"]
    ours: dict[str, Any] = {}
    for direction in ("evict", "down", "up"):
        ours |= _gaps(given, direction)
    return _compared_gaps(ours, want)


def gaps_by_direction(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    verdicts = [_compared_gaps(_gaps(given, direction), want[direction]) for direction in want]
    return next((one for one in verdicts if one.word != "pass"), verdicts[0])


def _compared_gaps(ours: Mapping[str, Any], want: Mapping[str, Any]) -> Verdict:
    verdict = compare(ours, dict(want), relative=1e-9)
    if verdict.word == "FAIL":
        unasked = {metric for metric, gap in want.items() if gap == "MISSING" and metric not in ours}
        if unasked:  # one without a sample that no waterline is about, which makes the peer act on all
            others = _compared_gaps(ours, {metric: gap for metric, gap in want.items() if metric not in unasked})
            return others if others.word == "FAIL" else differ("no-blanket", *others.anchors)
        common = {metric: gap for metric, gap in ours.items() if metric in want}
        if compare(common, dict(want), relative=1e-9).word == "pass":
            return differ("cpu-utilization-throttles")
        clamped = {metric: max(0, gap) if isinstance(gap, int | float) else gap for metric, gap in want.items()}
        return differ("gaps-not-negative") if compare(ours, clamped, relative=1e-9).word == "pass" else verdict
    return verdict


def _gaps(given: Mapping[str, Any], direction: str) -> dict[str, Any]:
    """In the peer's units; a metric without a sample is MISSING, one that cannot act this way has no gap."""
    excess, view, found = exact(given.get("excess", 0)), view_of(given.get("state", {})), {}
    for metric, levels in given.get(direction, {}).items():
        ours = BUILT_IN.get(named(metric).name)
        if ours is None or not (ours.evict_quantified if direction == "evict" else ours.throttle_quantified):
            continue
        rules = [rule_of(metric, level, "any") for level in levels]
        verdicts = [judge(rule, ours, view, RuleState(rule.key), START) for rule in rules]
        if verdicts[0].reading is None:
            found[metric] = "MISSING"
            continue
        if direction == "up":
            amounts = [headroom_of(one, view, excess) for one in verdicts]
        else:
            amounts = [gap_of(one, view, excess) for one in verdicts]
        known = [amount for amount in amounts if amount is not None]
        if known:
            found[metric] = float(min(known) if direction == "up" else max(known))
    return found


# ---- quotas of one pod


def throttle_container(case: Case) -> Verdict:
    pod = pod_of({"name": "p", "containers": case["in"]["containers"]})
    return _quotas(case, throttle_cpu(pod, bounds_of(case["in"]), None))


OF_RESTORES = ("restore-stepwise", "restore-only-raises", "restore-without-usage", "unlimited-costs")


def restore_container(case: Case) -> Verdict:
    """To the declared limit, as where the peer knows no other original. A case that differs is asked again with the
    peer's way for some of the named differences."""
    given = case["in"]
    verdict = _quotas(case, restored(given["containers"], given["stepPct"], ()))
    for undone in subsets(OF_RESTORES) if verdict.word == "FAIL" else ():
        if _quotas(case, restored(given["containers"], given["stepPct"], undone)).word == "pass":
            return differ(*undone)
    return verdict


def restored(
    containers: Iterable[Mapping[str, Any]], step_percent: float, undone: Collection[str]
) -> list[QuotaChange]:
    """Raises each container by one step, in their order; with the peer's way where a difference is undone."""
    step, changes = exact(step_percent) / 100, list[QuotaChange]()
    for container in containers:
        at_once = "restore-stepwise" in undone and container.get("extMilli") and not container.get("limitMilli")
        pod = pod_of({"name": "p", "containers": [container]})
        raised = restore_cpu(pod, RestoreBounds(Decimal(10**6) if at_once else step, True, _SIXTY_CORES), None)
        lowered = _lowered(pod.containers[0]) if "restore-only-raises" in undone else []
        if "restore-without-usage" not in undone or container.get("usage") is not None:
            changes += [*raised, *lowered]
    if "unlimited-costs" in undone:
        changes = [replace(each, amount_milli=Decimal(0)) if each.after_us is None else each for each in changes]
    return changes


def _lowered(container: Container) -> list[QuotaChange]:
    """The peer's write where a quota is above what was declared."""
    before, declared, period = container.quota_us, container.original_quota_us, container.period_us
    is_above = before is not None and declared is not None and before > declared
    if not is_above or not container.name or not container.is_readable or container.usage_milli is None:
        return []
    credit = max(Decimal(0), milli_of(declared, period) - exact(container.usage_milli))
    return [QuotaChange("p", container.name, before, declared, period, credit)]


def _quotas(case: Case, changes: Sequence[QuotaChange]) -> Verdict:
    correct = case.get("correct")
    want = dict(correct if isinstance(correct, Mapping) else wanted(case))
    total = float(sum(change.amount_milli for change in changes))
    got = {
        "quota_writes": [[one.container, -1 if one.after_us is None else one.after_us] for one in changes],
        "released_returned_mCPU": total,
        "released_total_mCPU": total,
    }
    asked = {key: want[key] for key in got if key in want}
    verdict = compare({key: got[key] for key in asked}, asked, relative=case.get("tol", 1e-9))
    if verdict.word == "FAIL" and [quota for _, quota in asked.get("quota_writes", ()) if 0 <= quota < 1000]:
        return differ("kernel-minimum")
    return verdict


def parse_percentage(case: Case) -> Verdict:
    """Of the excess: ours needs its sign."""
    want, text = wanted(case), str(case["in"]["s"])
    try:
        got = float(percentage(text))
    except ValueError:
        return Verdict("pass") if want.get("error") else differ("percent-as-written")
    return compare(got, want.get("value"), relative=1e-12) if not want.get("error") else Verdict("FAIL", f"got {got}")


def sort_cpu_2022(case: Case) -> Verdict:
    """The order of the proposal: class, then priority; ours takes the largest consumer first."""
    given = [dict(one) for one in case["in"]["pods"]]
    quotas = {f"{number:04}": one.get("cpuQuota") for number, one in enumerate(given)}
    verdict = _sorted(CPU, (_ASCENDING, "largest-first"))(case)
    if verdict.word == "pass" or verdict.word == "differ" or not any(quotas.values()):
        return verdict
    by_quota = by.Comparator("quota", lambda pod: float(pod.cpu_usage_milli or 0) / (quotas[pod.uid] or -1))
    peers = ComparatorChain("2022", (by.QOS_CLASS, by.PRIORITY, by_quota, by.RUNNING_TIME))
    return _sorted(CPU, (peers, "largest-first"))(case)


ADAPTORS: Mapping[str, Adaptor] = {
    "sort_cpu": _sorted(
        CPU_BORROWERS_FIRST, (_turned(CPU_BORROWERS_FIRST, by.EXTENDED_CPU_USAGE), "extended-ratio-highest-first")
    ),
    "sort_mem": _sorted(
        MEMORY_BORROWERS_FIRST,
        (_turned(MEMORY_BORROWERS_FIRST, by.EXTENDED_MEMORY_USAGE), "extended-ratio-highest-first"),
    ),
    "sort_general": _sorted(PRIORITY_FIRST),
    "sort_cpu_v2022": sort_cpu_2022,
    "compare": comparator,
    "watermark_heap": smallest,
    "gaps": gaps,
    "gaps_v2022": gaps_by_direction,
    "throttle_container": throttle_container,
    "restore_container": restore_container,
    "parse_percentage": parse_percentage,
}
