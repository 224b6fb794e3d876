"""Suites of strategies in koord_colocation.json: merging, overriding, validating, switching off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.offers.document import DEFAULTS, FIELDS, problems_of
from slackwater.offers.strategy_layers import (
    ANNOTATION,
    RATIOS,
    NodeOverrides,
    PoolStrategy,
    Selector,
    layers_of,
    merged,
    resolve,
)

_STRICTER = {
    "midStaticCPUReservedPercent", "midStaticMemoryReservedPercent", "resourceDiffThreshold", "cpuCalculatePolicy",
    "memoryCalculatePolicy", "metricMemoryCollectPolicy", "metricAggregatePolicy", "midReclaimMode",
}  # fmt: skip
"""Fields that the peer's controller takes with values that its webhook refuses, or has no rule for."""


def strategy(case: Case) -> Verdict:
    """Only what was said: defaults are not told, where the case does not begin with them."""
    given, want = case["in"], wanted(case)
    if given.get("node") is None:
        return compare(None, want)  # there is no strategy of no node
    if given.get("cluster") == "DEFAULTS":
        return _changed_defaults(given, want)
    if given.get("cluster") is None:
        return not_covered("calls without arguments: the types do not allow them")
    found = _merged(given)
    verdict = compare(found, want)
    if verdict.word == "FAIL" and isinstance(want, Mapping) and compare(found | _cut(given), want).word == "pass":
        return differ("ratio-rounding")
    return verdict


def _changed_defaults(given: Mapping[str, Any], want: Any) -> Verdict:
    """Compares whole strategies, because overriding a field with its default may or may not count as a change."""
    found = _merged({**given, "cluster": {}})
    changed = want["changedFromDefaults"] if isinstance(want, Mapping) and "changedFromDefaults" in want else want
    whole = {**DEFAULTS, **changed}
    verdict = compare({**DEFAULTS, **found}, whole)
    if verdict.word == "FAIL" and compare({**DEFAULTS, **found, **_cut(given)}, whole).word == "pass":
        return differ("ratio-rounding")
    return verdict


def _merged(given: Mapping[str, Any]) -> dict[str, Any]:
    """Readable layers that make a valid strategy, as for a node that never had one."""
    node, cluster = _node(given["node"]), given["cluster"]
    pools = [
        PoolStrategy(str(number), _selector(each), each.get("override") or each.get("strategy") or {})
        for number, each in enumerate(given.get("nodeConfigs") or ())
    ]
    spec = dict(resolve({**cluster, "enable": True}, pools, node).spec)
    plain = merged(layers_of(cluster, pools, node))
    return spec | {"enable": plain["enable"]} if "enable" in plain else {k: v for k, v in spec.items() if k != "enable"}


def _node(given: Mapping[str, Any]) -> NodeOverrides:
    own, raw = given.get("annotationStrategy"), given.get("annotations") or {}
    text = own if isinstance(own, str) else json.dumps(own)
    return NodeOverrides(given.get("labels") or {}, {**raw, **({} if own is None else {ANNOTATION[1]: text})})


def _selector(given: Mapping[str, Any]) -> Selector | None:
    """None selects no node, an empty one every node."""
    if given.get("matchLabels") is None and "matchExpressions" not in given:
        return None
    expressions = given.get("matchExpressions") or ()
    return Selector(
        given.get("matchLabels") or {},
        tuple((each["key"], each["operator"], tuple(each.get("values") or ())) for each in expressions),
    )


def _cut(given: Mapping[str, Any]) -> dict[str, int]:
    """What the peer makes of the labels: ratios in binary floating point, cut."""
    labels = given["node"].get("labels") or {}
    found = {}
    for name, target in RATIOS.items():
        try:
            found[target] = int(float(labels[f"node.koordinator.sh/{name}"]) * 100)
        except (KeyError, ValueError):
            continue
    return found


def valid(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if given is None:
        return not_covered("calls without arguments: the types do not allow them")
    known = {name: value for name, value in given.items() if name in FIELDS and value is not None}
    problems = problems_of(known)
    if problems and want is True and all(problem.field in _STRICTER for problem in problems):
        return differ("validated-once")
    return compare(not problems, want)


def disabled(case: Case) -> Verdict:
    given = case["in"]
    cluster, node = given.get("cluster") or {}, given.get("node") or {}
    return compare(not resolve(cluster, (), _node(node)).strategy.enabled, wanted(case))


ADAPTORS: Mapping[str, Adaptor] = {
    "strategy_merge": strategy,
    "strategy_node_override": strategy,
    "strategy_validation": valid,
    "colocation_disabled": disabled,
}
