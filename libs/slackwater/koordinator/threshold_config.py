"""`resource-threshold-config` of slo-controller-config as NodeQOS, AvoidanceAction and PodQOS.

Rules here add up, while of the peer's node strategies one replaces the cluster's. The cluster's document therefore
leaves out the nodes of the others, where a selector can say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.koordinator.conversion_report import ConvertedDocument, ConvertedItem, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import document_name, inverted, mapping_of, selector_of
from slackwater.model.records import record

KIND: Final = "NodeQOS"
THROTTLE: Final = "throttle"
EVICT: Final = "koordinator-evict"
DEFAULTS: Final[Mapping[str, Any]] = {
    "enable": False,
    "cpuSuppressThresholdPercent": 65,
    "memoryEvictThresholdPercent": 70,
}
MOST_PERCENT: Final = 100_000
MOST_SATISFACTION: Final = 60
NEEDS_EVICTION: Final = "evicts only where the NodeQOS default or an Autonomy has mode evict"


@record(frozen=True, slots=True)
class _RuleSource:
    """A rule: metric and action, the fields of its waterline and of its target, and the target's distance without."""

    name: str
    metric: str
    action: str
    value: str
    target: str = ""
    below: int = 0
    complement: bool = False
    """Whether the percentages are of what is satisfied, the metric's of what is missing."""


RULES: Final = (
    _RuleSource("cpu-suppress", "node_cpu_usage_ratio", THROTTLE, "cpuSuppressThresholdPercent"),
    _RuleSource(
        "memory-evict",
        "batch_memory_threshold",
        EVICT,
        "memoryEvictThresholdPercent",
        "memoryEvictLowerPercent",
        below=2,
    ),
    _RuleSource("cpu-evict", "batch_cpu_threshold", EVICT, "cpuEvictThresholdPercent", "cpuEvictLowerPercent", below=2),
    _RuleSource(
        "cpu-satisfaction",
        "batch_cpu_shortfall",
        EVICT,
        "cpuEvictBESatisfactionLowerPercent",
        "cpuEvictBESatisfactionUpperPercent",
        complement=True,
    ),
    _RuleSource(
        "memory-allocatable",
        "batch_memory_requested_ratio",
        EVICT,
        "memoryAllocatableEvictThresholdPercent",
        "memoryAllocatableEvictLowerPercent",
    ),
    _RuleSource(
        "cpu-allocatable",
        "batch_cpu_requested_ratio",
        EVICT,
        "cpuAllocatableEvictThresholdPercent",
        "cpuAllocatableEvictLowerPercent",
    ),
)
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "cpuSuppressPolicy": "CPU is limited by quota and weights; cpusets of batch pods are not moved",
    "cpuSuppressMinPercent": "an AvoidanceAction has minRatio and minCpu per pod instead",
    "cpuEvictBEUsageThresholdPercent": "the shortfall counts from 90 % of what batch pods may use",
    "cpuEvictTimeWindowSeconds": "the window is the agent's; coolDownSeconds says how often a rule acts",
    "evictEnabledPriorityThreshold": "pods of class BE are evicted; narrow PodQOS koordinator-batch by Priority",
    "allocatableEvictPriorityThreshold": "pods of class BE are evicted; narrow PodQOS koordinator-batch by Priority",
}


def thresholds(config: Mapping[str, Any], source: str) -> Iterator[ConvertedItem]:
    """Yields the documents of a parsed `resource-threshold-config`."""
    cluster = {**DEFAULTS, **_given(mapping_of(config.get("clusterStrategy")))}
    entries = config.get("nodeStrategies") or []
    for key, kind in (("clusterStrategy", Mapping), ("nodeStrategies", list)):
        if config.get(key) and not isinstance(config[key], kind):
            note = f"is no {'list' if kind is list else 'JSON object'}"
            yield ReportLine(ImportOutcome.REFUSED, source, key, note=note)
    selected: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
    names = ["koordinator"]
    for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
        fields = mapping_of(entry)
        field = f"nodeStrategies[{fields.get('name') or number}]"
        try:
            selector = selector_of(fields.get("nodeSelector"))
        except ValueError as error:
            yield ReportLine(ImportOutcome.REFUSED, source, f"{field}.nodeSelector", note=str(error))
            continue
        names.append(document_name(f"koordinator-{fields.get('name') or number}", names, "koordinator-nodes"))
        own = {key: value for key, value in fields.items() if key not in ("name", "nodeSelector")}
        selected.append((field, {**cluster, **_given(own)}, selector))
    others = inverted([selector for _, _, selector in selected])
    if others is None:
        note = "a selector cannot leave out their nodes: the cluster's rules count there too"
        yield ReportLine(ImportOutcome.CHANGED, source, "nodeStrategies", f"{KIND}/{names[0]}", note)
    items = [
        *_strategy(names[0], cluster, others or {}, source, "clusterStrategy"),
        *(
            item
            for name, (field, fields, selector) in zip(names[1:], selected, strict=True)
            for item in _strategy(name, fields, selector, source, field)
        ),
    ]
    if any(isinstance(item, ConvertedDocument) and _evicts(item.spec["rules"]) for item in items):
        yield from _eviction(source)
    yield from items


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _evicts(rules: Sequence[Mapping[str, Any]]) -> bool:
    return any(rule["actionName"] == EVICT for rule in rules)


def _eviction(source: str) -> Iterator[ConvertedItem]:
    """Yields the action that evicts, and the pods that may suffer it."""
    yield ConvertedDocument(source, "AvoidanceAction", EVICT, {"eviction": {}, "disableScheduling": False})
    of_batch = {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]}
    yield ConvertedDocument(
        source, "PodQOS", "koordinator-batch", {"scopeSelector": of_batch, "allowedActions": [THROTTLE, EVICT]}
    )


def _strategy(
    name: str, fields: Mapping[str, Any], selector: Mapping[str, Any], source: str, field: str
) -> Iterator[ConvertedItem]:
    if fields["enable"] is not True:
        note = "enable is not true: the peer does nothing"
        yield ReportLine(ImportOutcome.CONVERTED, source, field, note=note)
        return
    target, rules = f"{KIND}/{name}", []
    for rule in RULES:
        if rule.value not in fields:
            continue
        try:
            rules.append(_rule(rule, fields))
        except ValueError as error:
            yield ReportLine(ImportOutcome.REFUSED, source, f"{field}.{rule.value}", note=str(error))
            continue
        if rule.action == EVICT:
            yield ReportLine(ImportOutcome.CHANGED, source, f"{field}.{rule.value}", target, NEEDS_EVICTION)
    known = {"enable", *(text for rule in RULES for text in (rule.value, rule.target))}
    for key in fields:
        if key not in known:
            note = WITHOUT_COUNTERPART.get(key, "NodeQOS has no such rule")
            yield ReportLine(ImportOutcome.DROPPED, source, f"{field}.{key}", note=note)
    if rules:
        yield ConvertedDocument(source, KIND, name, {**({"selector": selector} if selector else {}), "rules": rules})
        yield ReportLine(ImportOutcome.CONVERTED, source, field, target)


def _rule(rule: _RuleSource, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one rule. Raises ValueError for what is no percentage, or the wrong way round."""
    value, target = _percent(fields, rule.value), _percent(fields, rule.target) if rule.target in fields else None
    if target is None and rule.below:
        target = value - rule.below
    if target is None and rule.target:
        raise ValueError(f"{rule.target} is needed beside it")
    if rule.complement and value > MOST_SATISFACTION:
        raise ValueError(f"{value} is above {MOST_SATISFACTION}, as the peer refuses too")
    if rule.complement:
        value, target = 100 - value, None if target is None else 100 - target
    if value <= 0 or (target is not None and not 0 <= target < value):
        raise ValueError(f"{rule.value} {fields[rule.value]} and its target {target} leave nothing between them")
    metric = {"name": rule.metric, "value": f"{value}%", **({} if target is None else {"target": f"{target}%"})}
    return {"name": rule.name, "metricRule": metric, "actionName": rule.action}


def _percent(fields: Mapping[str, Any], key: str) -> int:
    value = fields[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_PERCENT:
        raise ValueError(f"{value!r} is no percentage")
    return value
