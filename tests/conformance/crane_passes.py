"""Whole passes of crane.json: evictions, throttles and restores of a node's pods.

The orders are the chains that put borrowers and priority first; those of the peer's first code put the class first.
What differs is asked again with only the named difference undone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import permutations
from typing import Any

from crane_pods import START, bounds_of, named, pod_of, rule_of, view_of
from crane_shapes import ExecutorRun, RunAnswer
from crane_waterlines import OF_RESTORES, restored
from koord_batch import subsets
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, differ, tolerance, wanted

from slackwater.model.tiers import QoSClass
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import RestoreBounds
from slackwater.waterline.analysis.analyzer import AnalyzerState, Excess
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.analysis.sample_counters import RuleState
from slackwater.waterline.cycle import Cycle, CycleState, Options, run_cycle
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import Step
from slackwater.waterline.execution.restore import restore_quotas
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering import chains as by
from slackwater.waterline.ordering.chains import (
    CPU,
    CPU_BORROWERS_FIRST,
    MEMORY,
    MEMORY_BORROWERS_FIRST,
    ComparatorChain,
)
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeExpression, ScopeSelector
from slackwater.waterline.policies.quantity import quantity
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import MetricResource, Metrics

_UNBOUND = ActionLimits(evictions_per_cycle=None, evictions_per_hour=None)
_BOUNDS = "bounds"
_CPU, _UTILIZATION = "cpu_total_usage", "cpu_total_utilization"
MISSING = "MISSING"
_REGISTERED = (_CPU, _UTILIZATION, "memory_total_usage", "memory_total_utilization")
"""What the peer can quantify when it evicts; of these it throttles for the first one alone."""
_FAR_ABOVE = 1e15
_BY_METRIC = ("no-needless-eviction", "every-gap-credited")
_OF_EVICTIONS = ("credit-on-success", *_BY_METRIC, "extended-ratio-highest-first")
_MOST_METRICS = 5
"""Of which all orders are tried."""
_CLASSES = ScopeExpression(scope_name="QOSClass", operator="In", values=tuple(QoSClass))
_EVERY_POD = (ScopeSelector(), ScopeSelector(match_expressions=(_CLASSES,)))
"""Those of every class: what owns its cores is only touched where its class is named."""
_LISTED = ComparatorChain("as listed", (by.Comparator("place", lambda pod: float(pod.uid)),))


@dataclass(frozen=True)
class Orders:
    """How pods are ordered, by what a metric is about."""

    cpu: ComparatorChain
    memory: ComparatorChain

    def metrics(self) -> Metrics:
        chains = {MetricResource.CPU: self.cpu, MetricResource.MEMORY: self.memory}
        return Metrics.of(*(replace(one, sort=chains.get(one.resource, one.sort)) for one in BUILT_IN))

    def turned(self, *comparators: by.Comparator) -> Orders:
        return Orders(_turned(self.cpu, comparators), _turned(self.memory, comparators))


def _turned(chain: ComparatorChain, comparators: Collection[by.Comparator]) -> ComparatorChain:
    return ComparatorChain(
        f"{chain.name}, turned", tuple(o.turned() if o in comparators else o for o in chain.comparators)
    )


_TODAY, _FIRST_CODE = Orders(CPU_BORROWERS_FIRST, MEMORY_BORROWERS_FIRST), Orders(CPU, MEMORY)
_RATIO_TURNED = (by.EXTENDED_CPU_USAGE, by.EXTENDED_MEMORY_USAGE)
_SIZE_TURNED = (by.CPU_USAGE, by.MEMORY_USAGE)


def _orders(case: Case, undone: Collection[str] = ()) -> Orders:
    orders = _FIRST_CODE if str(case.get("kind", "")).endswith("_v2022") else _TODAY
    if "largest-first" in undone:
        orders = orders.turned(*_SIZE_TURNED)
    return orders.turned(*_RATIO_TURNED) if "extended-ratio-highest-first" in undone else orders


def _total(adaptor: Adaptor) -> Adaptor:
    """A waterline that is no quantity is no case."""

    def read(case: Case) -> Verdict:
        case = {**case, "in": {"pods": [], "state": {}, **case["in"]}}
        try:
            for direction in ("evict", "down", "up"):
                for levels in case["in"].get(direction, {}).values():
                    [quantity(level) for level in levels]
        except ValueError as error:
            return Verdict("FAIL", f"in.{direction}: {error}")
        verdict = adaptor(case)
        rounded = {**case, "in": _rounded(case["in"])}
        if verdict.word != "FAIL" or rounded == case:
            return verdict
        otherwise = adaptor(rounded)
        return differ("exact-waterline", *otherwise.anchors) if otherwise.word != "FAIL" else verdict

    return answers_as(RunAnswer, read_as(ExecutorRun, read))


def _rounded(given: Mapping[str, Any]) -> dict[str, Any]:
    """With waterlines as the peer compares with them: rounded up to whole numbers."""

    def rounded(levels: Sequence[str]) -> list[str]:
        found = [(level, quantity(level)) for level in levels]
        return [text if level == int(level) else str(math.ceil(level)) for text, level in found]

    written = [direction for direction in ("evict", "down", "up") if direction in given]
    return {**given, **{each: {metric: rounded(all_) for metric, all_ in given[each].items()} for each in written}}


# ---- evictions


def evict_run(case: Case) -> Verdict:
    verdict = _judged(case, ())
    if verdict.word == "pass":
        return verdict
    for undone in subsets(_OF_EVICTIONS):
        if _judged(case, undone).word == "pass":
            return differ(*undone)
    on_all = _acts_on_all(case["in"], "evict", _REGISTERED, _REGISTERED)
    return differ("no-blanket") if on_all and wanted(case).get("evict_calls") == _everybody(case["in"]) else verdict


def _judged(case: Case, undone: Collection[str]) -> Verdict:
    """Metric by metric, where the difference is in that, in any order: the peer's is not defined."""
    verdict, asked = Verdict("FAIL", "nothing was asked"), tuple(case["in"].get("evict", {}))
    is_walk = any(one in _BY_METRIC for one in undone)
    for turn in permutations(asked[:_MOST_METRICS]) if is_walk else [asked]:
        calls, left = _walk(case, turn, undone) if is_walk else _at_once(case, undone)
        verdict = compare(calls, wanted(case).get("evict_calls", []))
        verdict = verdict if verdict.word == "FAIL" else _gaps_left(case, left)
        if verdict.word == "pass":
            return verdict
    return verdict


Left = Mapping[str, tuple[Decimal | None, Decimal]]
"""By metric: the gap, and what was released of it."""


def _at_once(case: Case, undone: Collection[str]) -> tuple[list[str], Left]:
    calls: list[str] = []
    cycle = _evictions(case, undone, calls)
    return calls, {one.metric: (one.gap, one.released) for one in cycle.plan.remaining}


def _walk(case: Case, turn: Sequence[str], undone: Collection[str]) -> tuple[list[str], Left]:
    """One pod after the other from the first of each order, until the gap of the metric is closed."""
    cycle, metrics = _evictions(case, undone, []), _orders(case, undone).metrics()
    left: dict[str, tuple[Decimal | None, Decimal]] = {
        one.metric: (one.gap, Decimal(0)) for one in cycle.plan.remaining
    }
    given, calls, done = case["in"], [], set[str]()
    pods = [pod_of(one, number) for number, one in enumerate(given["pods"])]
    for name in (named(one).name for one in turn):
        metric, (gap, _) = metrics.get(name), left.get(name, (None, Decimal(0)))
        for pod in metric.sort.order(pods) if metric and gap else ():
            if left[name][1] >= (gap or 0):
                break
            if pod.uid in done:
                continue
            done.add(pod.uid)
            one = given["pods"][int(pod.uid)]
            calls += [] if one.get("notInLister") else [pod.name]
            failed = one.get("notInLister") or one.get("evictFails")
            if failed and "credit-on-success" not in undone:
                continue
            for other in [name] if "every-gap-credited" in undone else left:
                about = metrics.get(other)
                released = about.released_by_eviction(pod) if about else Decimal(0)
                left[other] = left[other][0], left[other][1] + released
    return calls, left


def _evictions(case: Case, undone: Collection[str], calls: list[str]) -> Cycle:
    """Our own cycle; `calls` are the pods that it asks to go."""
    given = case["in"]
    refusing = {one["name"] for one in given["pods"] if one.get("evictFails")}
    absent = {one["name"] for one in given["pods"] if one.get("notInLister")}

    def attempt(pod: PodUse) -> str | None:
        if pod.name not in absent:
            calls.append(pod.name)
        failed = pod.name in refusing or pod.name in absent
        return "refused" if failed and "credit-on-success" not in undone else None

    pods = [pod_of(one, number) for number, one in enumerate(given["pods"])]
    rules = [rule_of(name, level, "evict") for name, levels in given.get("evict", {}).items() for level in levels]
    policies = Policies(
        (NodePolicy("nq", tuple(rules)),),
        (PolicyAction("evict", evicts=True),),
        tuple(PodQosSpec(scope_selector=scope, allowed_actions=("evict",)) for scope in _EVERY_POD),
    )
    options = Options(excess=Excess(exact(given.get("excess", 0))), limits=_UNBOUND)
    view = view_of(given.get("state", {}), pods)
    chains = _orders(case, undone).metrics()
    return run_cycle(view, policies, CycleState(), START, options=options, metrics=chains, attempt=attempt)


def _gaps_left(case: Case, left: Mapping[str, tuple[Decimal | None, Decimal]]) -> Verdict:
    """What the peer's gaps would be after the pass: below nothing where more was freed than asked for. A gap that was
    below nothing from the start is none to us."""
    asked = {} if "correct" in case else wanted(case).get("gaps_after", {})
    for metric, after in asked.items():
        gap, released = left.get(named(metric).name, (None, Decimal(0)))
        if gap is None or not gap:
            if after != MISSING and after > 0:
                return Verdict("FAIL", f"{metric}: there is no gap, want {after}")
            continue
        got = float(gap - released)
        if after == MISSING:
            return Verdict("FAIL", f"{metric}: got {got}, want that it is missing")
        if abs(got - after) > tolerance(case) * max(abs(got), abs(after), float(gap)):
            return Verdict("FAIL", f"{metric}: got {got}, want {after}")
    return Verdict("pass")


def _acts_on_all(
    given: Mapping[str, Any], direction: str, quantified: Collection[str], needed: Collection[str]
) -> bool:
    """Whether the peer acts on every candidate: one metric cannot be quantified, or one that it knows has no sample."""
    asked = given.get(direction, {})
    unknown = any(metric not in quantified for metric in asked)
    able = any(metric in quantified for metric in asked)
    return able and (unknown or any(metric not in given.get("state", {}) for metric in needed))


def _everybody(given: Mapping[str, Any]) -> list[str]:
    return [one["name"] for one in given["pods"] if not one.get("notInLister")]


# ---- throttles


def throttle_run(case: Case) -> Verdict:
    """In the peer's whole steps; our own last cut is as small as the gap (tests/unit/waterline)."""
    want = wanted(case)
    if "quota_writes" not in want:
        return Verdict("FAIL", "this case cannot be read: it does not say what is written")
    verdict = _throttled_as(case, ())
    if verdict.word == "pass":
        return verdict
    is_todays = not str(case.get("kind", "")).endswith("_v2022") and "correct" not in case
    of_gaps = ("separate-gaps",) if is_todays else ()
    for undone in subsets(("largest-first", "extended-ratio-highest-first", *of_gaps)):
        if _throttled_as(case, undone).word == "pass":
            return differ(*undone)
    without = _without_utilization(case, "down")
    if without is not None and _throttled_as(without, ()).word == "pass":
        return differ("cpu-utilization-throttles")
    if _acts_on_all(case["in"], "down", (_CPU,), (_CPU,)) and _blanket(case) == _pairs(want["quota_writes"]):
        return differ("no-blanket")
    return verdict


def _without_utilization(case: Case, direction: str) -> Case | None:
    """The case without its waterlines of CPU utilization, which the peer does not throttle by; None: it has none."""
    asked = case["in"].get(direction, {})
    if _UTILIZATION not in asked:
        return None
    left = {metric: levels for metric, levels in asked.items() if metric != _UTILIZATION}
    return {**case, "in": {**case["in"], direction: left}}


def _throttled_as(case: Case, undone: Collection[str]) -> Verdict:
    given, want = case["in"], wanted(case)
    if "separate-gaps" in undone:
        given = _with_shared_gap(given)
    cycle = _throttled(given, _orders(case, undone).metrics())
    verdict = compare(_writes(cycle.plan.of(ActionKind.THROTTLE)), _pairs(want["quota_writes"]))
    return verdict if verdict.word == "FAIL" else _left_open(cycle, want, tolerance(case))


def _with_shared_gap(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is left of a gap to throttle by where the gap to restore by takes its place: that one, or none."""
    ups, used = given.get("up", {}).get(_CPU, ()), given.get("state", {}).get(_CPU)
    down = {metric: levels for metric, levels in given.get("down", {}).items() if metric != _CPU}
    if not ups or not isinstance(used, int | float):
        return {**given, "down": down}
    return {**given, "down": {**down, _CPU: [str(2 * exact(used) - min(map(quantity, ups)))]}}


def _left_open(cycle: Cycle, want: Mapping[str, Any], tolerance: float) -> Verdict:
    """What the peer's gap would be after the pass: below nothing where whole steps took more."""
    wanted_gap = want.get("gap_after", want.get("gaps_after", {}).get(_CPU))
    left = [one for one in cycle.plan.remaining if one.metric == "node_cpu_usage"]
    if wanted_gap is None or not left or not left[0].gap:
        return Verdict("pass")
    got = float(left[0].gap - left[0].released)
    if wanted_gap == MISSING:
        return Verdict("FAIL", f"the gap is {got}, want that it is missing")
    near = abs(got - wanted_gap) <= tolerance * max(abs(got), abs(wanted_gap), float(left[0].gap))
    return Verdict("pass") if near else Verdict("FAIL", f"the gap is {got}, want {wanted_gap}")


def _blanket(case: Case) -> list[list[Any]]:
    """All that can be throttled, in the order of the list: as if there were no end of what has to go."""
    given = case["in"]
    state = {**given.get("state", {}), _CPU: _FAR_ABOVE}
    cycle = _throttled({**given, "state": state, "down": {_CPU: ["1"]}}, Orders(_LISTED, _LISTED).metrics())
    return _writes(cycle.plan.of(ActionKind.THROTTLE))


def _throttled(given: Mapping[str, Any], metrics: Metrics) -> Cycle:
    options = Options(excess=Excess(exact(given.get("excess", 0))), limits=_UNBOUND)
    policies = _policies(given, given.get("down", {}))
    return run_cycle(
        view_of(given.get("state", {}), _pods(given)), policies, CycleState(), START, options=options, metrics=metrics
    )


def _pods(given: Mapping[str, Any]) -> list[PodUse]:
    """Those that the lister knows: of others we have no view, and the peer changes nothing."""
    there = [(number, one) for number, one in enumerate(given["pods"]) if not one.get("notInLister")]
    return [replace(pod_of(one, number), labels={_BOUNDS: _action(one)}) for number, one in there]


def _action(pod: Mapping[str, Any]) -> str:
    """The name of the action that has a pod's own step and floor."""
    return f"throttle-{pod.get('step', 0):g}-{pod.get('min', 0):g}".replace(".", "-").replace("+", "")


def _policies(given: Mapping[str, Any], asked: Mapping[str, Sequence[str]]) -> Policies:
    """A rule, an action and a grant for each pair of step and floor."""
    bounds = {_action(one): one for one in given["pods"]}
    actions = tuple(
        PolicyAction(
            name,
            bounds_of(one, step="step", least="min"),
            RestoreBounds(exact(one.get("step", 0)) / 100, whole_steps=True),
        )
        for name, one in bounds.items()
    )
    grants = tuple(
        PodQosSpec(
            label_selector=LabelSelector(match_labels={_BOUNDS: name}), scope_selector=scope, allowed_actions=(name,)
        )
        for name in bounds
        for scope in _EVERY_POD
    )
    rules: list[Rule] = [rule_of(m, level, name) for m, levels in asked.items() for level in levels for name in bounds]
    return Policies((NodePolicy("nq", tuple(rules)),), actions, grants)


def _writes(steps: Iterable[Step]) -> list[list[Any]]:
    return [[f"{step.name}/{one.container}", one.after_us] for step in steps for one in step.changes]


def _pairs(writes: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [list(one) for one in writes]


# ---- restores


def restore_run(case: Case) -> Verdict:
    """A metric without a sample gives nothing back, and breaks nothing."""
    given, want = case["in"], wanted(case)
    cycle = _restored(given)
    writes = _writes(cycle.plan.of(ActionKind.RESTORE))
    if any(metric not in given.get("state", {}) for metric in given.get("up", {})):
        return (
            differ("missing-restores-nothing") if not writes and want != {"quota_writes": []} else compare(writes, [])
        )
    if "quota_writes" not in want:
        return Verdict("FAIL", f"got {writes}, want {dict(want)}")
    asked = _pairs(want["quota_writes"])
    verdict = compare(writes, asked)
    without = _without_utilization(case, "up") if verdict.word == "FAIL" else None
    if without is not None and restore_run(without).word == "pass":
        return differ("cpu-utilization-throttles")
    for undone in ((), *subsets(("largest-first", "extended-ratio-highest-first"))) if verdict.word == "FAIL" else ():
        if _forwards(cycle, _orders(case, undone).cpu) == asked:
            return differ("restore-in-reverse", *undone)
    others = (*OF_RESTORES, "largest-first", "extended-ratio-highest-first")
    for undone in ((), *subsets(others)) if verdict.word == "FAIL" else ():
        if _walked(case, undone) == asked:
            return differ("restore-in-reverse", *undone)
    return verdict


def _walked(case: Case, undone: Collection[str]) -> list[list[Any]]:
    """Pod after pod in the order of giving way, each by its whole step, until the headroom is used."""
    given, ups = case["in"], case["in"].get("up", {}).get(_CPU, ())
    used = given.get("state", {}).get(_CPU)
    if not ups or not isinstance(used, int | float):
        return []
    left = (1 + exact(given.get("excess", 0))) * (min(map(quantity, ups)) - exact(used))
    writes: list[list[Any]] = []
    pods = {f"{number:04}": each for number, each in enumerate(given["pods"]) if not each.get("notInLister")}
    for pod in _orders(case, undone).cpu.order([pod_of(each, int(uid)) for uid, each in pods.items()]):
        if left <= 0:
            break
        changes = restored(pods[pod.uid].get("containers", ()), pods[pod.uid].get("step", 0), undone)
        writes += [[f"{pod.name}/{change.container}", change.after_us] for change in changes]
        left -= sum(change.amount_milli for change in changes)
    return writes


def _restored(given: Mapping[str, Any]) -> Cycle:
    policies = _policies(given, given.get("up", {}))
    episode = tuple(RuleState(rule.key, in_episode=True) for policy in policies.nodes for rule in policy.rules)
    share = exact(given.get("excess", 0))
    state, options = CycleState(AnalyzerState(episode)), Options(excess=Excess(share, share))
    return run_cycle(view_of(given.get("state", {}), _pods(given)), policies, state, START, options=options)


def _forwards(cycle: Cycle, chain: ComparatorChain) -> list[list[Any]]:
    """In the order of giving way, pods and containers: `give_back` goes through a chain from its end."""
    place = {pod.uid: number for number, pod in enumerate(chain.order(one.pod for one in cycle.analysis.restorable))}
    backwards = ComparatorChain("backwards", (by.Comparator("place", lambda pod: -place[pod.uid]),))
    steps, _ = restore_quotas(cycle.analysis.restorable, {}, backwards)
    return [[f"{one.name}/{change.container}", change.after_us] for one in steps for change in reversed(one.changes)]


ADAPTORS: Mapping[str, Adaptor] = {
    "evict_run": _total(evict_run),
    "throttle_run": _total(throttle_run),
    "throttle_run_v2022": _total(throttle_run),
    "restore_run": _total(restore_run),
    "restore_run_v2022": _total(restore_run),
}
