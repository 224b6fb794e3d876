"""Policies of crane.json: the pods that a PodQOS matches, what is refused, and whole sequences of analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from crane_pods import METRICS, START, bounds_of, named, pod_of, rule_of, view_of
from crane_shapes import RulesAnswer, RulesCase
from pydantic import ValidationError
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.analysis.analyzer import Analysis, AnalyzerState, analyse
from slackwater.waterline.analysis.demands import Demand
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.policies.podqos import PodQosSpec
from slackwater.waterline.policies.quantity import quantity
from slackwater.waterline.policies.rules import MetricRuleSpec, NodeQosRulesSpec
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction
from slackwater.waterline.registry.built_in import BUILT_IN

_DOWN_TO = Container("c", usage_milli=500, quota_us=50_000)


def podqos_spec(given: Mapping[str, Any]) -> PodQosSpec:
    """In the document's own words."""
    labels = {"matchLabels": given.get("labels") or {}}
    labels["matchExpressions"] = [
        {"key": one["key"], "operator": one["op"], "values": one.get("values", [])}
        for one in given.get("labelExprs") or ()
    ]
    scope = {
        "matchExpressions": [
            {"scopeName": one["scope"], "operator": one["op"], "values": one.get("values", [])}
            for one in given.get("exprs") or ()
        ]
    }
    has_labels = bool(given.get("labels") or given.get("labelExprs"))
    document = {"allowedActions": given.get("actions", [])}
    document |= {"labelSelector": labels} if has_labels else {}
    document |= {} if given.get("scopeSelectorNil") else {"scopeSelector": scope}
    return PodQosSpec.model_validate(document)


def podqos_match(case: Case) -> Verdict:
    given = case["in"]
    want = case["correct"] if isinstance(case.get("correct"), Mapping) else wanted(case)
    try:
        spec = podqos_spec(given["podqos"])
    except ValidationError:
        return differ("selectors-are-validated")
    return compare({"match": spec.matches(pod_of(given["pod"]))}, {"match": want.get("match")})


# ---- refused documents


def metric_rule(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if given.get("name") is not None and given["name"] not in METRICS and not want["error"]:
        return not_covered(f"the agent does not report {given['name']}")
    return _refusal(want, lambda: MetricRuleSpec.model_validate(_metric_rule(given)))


def rules(case: Case) -> Verdict:
    given = case["in"].get("rules", [])
    if not given and wanted(case)["error"]:
        return differ("empty-rules-allowed")
    return _refusal(wanted(case), lambda: NodeQosRulesSpec.model_validate({"rules": [_rule(one) for one in given]}))


def _rule(given: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in given.items() if key in ("name", "actionName")}
    plain |= {key: given[key] for key in ("avoidanceThreshold", "restoreThreshold") if key in given}
    return plain | ({"metricRule": _metric_rule(given["metricRule"])} if "metricRule" in given else {})


def _metric_rule(given: Mapping[str, Any]) -> dict[str, Any]:
    """The peer's CPU quantities count milli-cores, ours cores; percent is percent in both."""
    name, value = given.get("name"), given.get("value")
    ours = {} if name is None else {"name": named(name).name}
    return ours if value is None else ours | {"value": _amount(name, str(value))}


def _amount(name: str | None, value: str) -> str:
    divisor = named(name or "").divisor
    try:
        if name == "cpu_total_usage":
            return f"{quantity(value)}m"
        return f"{quantity(value)}%" if divisor == 100 else str(quantity(value) / divisor)
    except ValueError:
        return value


def _refusal(want: Mapping[str, Any], validate: Any) -> Verdict:
    try:
        validate()
    except ValidationError as error:
        kinds = {_kind(one) for one in error.errors()}
        if not want["error"]:
            return Verdict("FAIL", f"refused: {error}")
        expected = want.get("first_error_type")
        if expected is None or expected in kinds:
            return Verdict("pass")
        return differ("first-error") if kinds else Verdict("FAIL", f"got {sorted(kinds)}, want {expected}")
    return Verdict("FAIL", "accepted") if want["error"] else Verdict("pass")


def _kind(error: Any) -> str:
    if error["type"] == "missing":
        return "Required"
    return "Duplicate" if "must be unique" in error["msg"] else "Invalid"


# ---- sequences


def sequence(case: Case) -> Verdict:
    """Step by step. Every field that differs from the peer's belongs to a difference that is written down, or fails."""
    given, want, correct = case["in"], case["out"], case.get("correct")
    found: set[str] = set()
    steps = list(_analyses(given))
    for (at, analysis, throttled), peers in zip(steps, want["steps"], strict=True):
        ours = _told(analysis, throttled)
        for field in ("taint", "evict", "down", "up", "evictWm", "downWm"):
            theirs = _plain(field, peers.get(field))
            if ours[field] != theirs:
                anchor = _difference(field, analysis, ours[field], theirs, peers)
                if anchor is None:
                    return Verdict("FAIL", f"t={at} {field}: got {ours[field]!r}, want {peers.get(field)!r}")
                found.add(anchor)
    if isinstance(correct, Mapping):
        verdict = _against(correct, steps)
        return Verdict("pass") if verdict.word == "pass" else verdict
    return differ(*sorted(found)) if found else Verdict("pass")


def _against(correct: Mapping[str, Any], steps: list[tuple[float, Analysis, set[str]]]) -> Verdict:
    """What the case says is right: data where it gives data, else the sentence's meaning as far as it can be asked."""
    for at, taint in correct.get("taint_at", {}).items():
        got = [one.scheduling.scheduling.is_disabled for when, one, _ in steps if when == float(at)]
        if got != [taint]:
            return Verdict("FAIL", f"taint at {at}: got {got}, want {taint}")
    graces = {each.grace_seconds for _, one, _ in steps for demand in one.evictions for each in demand.candidates}
    if "grace" in correct and graces != {correct["grace"]}:
        return Verdict("FAIL", f"grace: got {graces}, want {correct['grace']}")
    for at, one, _ in steps:
        down = {each.pod.uid for demand in one.throttles for each in demand.candidates}
        if down & {each.pod.uid for each in one.restorable}:
            return Verdict("FAIL", f"t={at}: the same pods go down and up")
    return Verdict("pass")


def _difference(field: str, analysis: Analysis, ours: Any, peers: Any, step: Mapping[str, Any]) -> str | None:
    """The difference that explains just this answer, or None."""
    if any("is not defined" in one.because for one in analysis.ignored):
        return "unknown-action-refused"
    match field:
        case "taint":
            stuck = peers and not ours and not any(one.triggered for one in analysis.verdicts)
            return "restore-level-triggered" if stuck else None
        case "evict":
            lost = [name for name, _ in ours] == [name for name, _ in peers] and all(g is None for _, g in peers)
            return "grace-of-action" if lost else None
        case "down":
            same = [one[:2] for one in ours] == [one[:2] for one in peers]
            return (
                "most-careful-merge" if same and all(a[2] <= b[2] for a, b in zip(ours, peers, strict=True)) else None
            )
        case "up" if step.get("down"):
            return "triggered-wins" if peers and not ours else None
        case "up":
            return "restore-level-triggered" if ours and not peers else None
    return None


def _analyses(given: Mapping[str, Any]) -> Any:
    """Every step with its analysis. A pod that was asked to go down is down from then on."""
    policies, labels = _policies_of(given), given.get("nodeLabels", {})
    pods = [pod_of(one, number) for number, one in enumerate(given["pods"])]
    state, throttled = AnalyzerState(), set[str]()
    for one in given["steps"]:
        now = START + timedelta(seconds=one["t"])
        present = [_as_is(pod, throttled) for pod in pods]
        analysis = analyse(view_of(one["state"], present, labels), policies, BUILT_IN, state, now)
        state = analysis.state
        throttled |= {each.pod.uid for demand in analysis.throttles for each in demand.candidates}
        yield one["t"], analysis, throttled


def _as_is(pod: PodUse, throttled: set[str]) -> PodUse:
    return replace(pod, containers=(_DOWN_TO,)) if pod.uid in throttled else pod


def _policies_of(given: Mapping[str, Any]) -> Policies:
    nodes = tuple(
        NodePolicy(
            one["name"],
            tuple(_rule_value(one["name"], rule) for rule in one["rules"]),
            LabelSelector(match_labels=one["selector"]) if one.get("selector") else None,
        )
        for one in given["nodeQos"]
    )
    actions = tuple(
        PolicyAction(
            one["name"],
            throttle=bounds_of(one["throttle"], step="step", least="min") if "throttle" in one else None,
            evicts=bool(one.get("evict")),
            grace_seconds=one.get("grace"),
            cool_down_seconds=one["cooldown"],
        )
        for one in given["actions"]
    )
    return Policies(nodes, actions, tuple(podqos_spec(one) for one in given["podQos"]))


def _rule_value(policy: str, rule: Mapping[str, Any]) -> Any:
    return rule_of(
        rule["metric"],
        str(rule["value"]),
        rule["action"],
        policy=policy,
        name=rule["name"],
        avoidance_threshold=rule["avoid"],
        restore_threshold=rule["restore"],
        is_preview=rule.get("strategy") == "Preview",
        selector=rule.get("selector"),
    )


def _told(analysis: Analysis, throttled: set[str]) -> dict[str, Any]:
    """In the peer's shape."""
    return {
        "taint": analysis.scheduling.scheduling.is_disabled,
        "evict": sorted((one.pod.name, one.grace_seconds) for one in _candidates(analysis.evictions)),
        "down": sorted(
            (one.pod.name, one.throttle.min_ratio * 100, one.throttle.step_ratio * 100)
            for one in _candidates(analysis.throttles)
            if one.throttle is not None
        ),
        "up": sorted(one.pod.name for one in analysis.restorable),
        "evictWm": _waterlines(analysis.evictions),
        "downWm": _waterlines(analysis.throttles),
    }


def _candidates(demands: tuple[Demand, ...]) -> list[Any]:
    seen = {one.pod.uid: one for demand in demands for one in demand.candidates}
    return list(seen.values())


def _waterlines(demands: tuple[Demand, ...]) -> dict[str, tuple[Decimal, int]]:
    return {one.metric.name: (one.waterline, len(one.rules)) for one in demands}


def _plain(field: str, peers: Any) -> Any:
    """The peer's answer in the shape of `_told`; what it does not mention is nothing."""
    match field:
        case "taint":
            return bool(peers)
        case "evict":
            return sorted((one["pod"], one["grace"]) for one in peers or ())
        case "down":
            return sorted((one["pod"], one["min"], one["step"]) for one in peers or ())
        case "up":
            return sorted(one["pod"] for one in peers or ())
    found = {}
    for metric, text in (peers or {}).items():
        level, count = text.split(" of ")
        found[named(metric).name] = (Decimal(level) / named(metric).divisor, int(count))
    return found


ADAPTORS: Mapping[str, Adaptor] = {
    "podqos_match": podqos_match,
    "validate_metric_rule": metric_rule,
    "validate_rules": answers_as(RulesAnswer, read_as(RulesCase, rules)),
    "analyze_sequence": sequence,
}
