"""`colocation-config` of slo-controller-config as ColocationStrategies.

The peer's cluster strategy becomes the document `default`, each entry of `nodeConfigs` a document of its own. Of the
peer's entries the first that matches counts, so that the first has the highest precedence here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slackwater.koordinator.conversion_report import ConvertedDocument, ConvertedItem, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import document_name, mapping_of, selector_of
from slackwater.offers.document import FIELDS, WITHOUT_EFFECT
from slackwater.resources.names import CLUSTER

KIND: Final = "ColocationStrategy"
NODE_CONFIGS: Final = "nodeConfigs"
MOST_PRECEDENCE: Final = 1000
USAGE: Final = "usage"
POLICIES: Final[Mapping[str, frozenset[str]]] = {
    "cpuCalculatePolicy": frozenset({USAGE, "maxUsageRequest"}),
    "memoryCalculatePolicy": frozenset({USAGE, "request", "maxUsageRequest"}),
}
"""What the peer honours; any other text is `usage` to it."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def strategies(config: Mapping[str, Any], source: str) -> Iterator[ConvertedItem]:
    """Yields the documents of a parsed `colocation-config`."""
    yield from _cluster(config, source)
    entries = config.get(NODE_CONFIGS) or []
    names = [CLUSTER]
    if not isinstance(entries, list):
        yield ReportLine(ImportOutcome.REFUSED, source, NODE_CONFIGS, note="is no list")
        return
    for number, entry in enumerate(entries, 1):
        fields = mapping_of(entry)
        field = f"{NODE_CONFIGS}[{fields.get('name') or number}]"
        if fields.get("nodeSelector") is None:
            yield ReportLine(ImportOutcome.DROPPED, source, field, note="without nodeSelector it matches no node")
            continue
        try:
            selector = selector_of(fields["nodeSelector"])
        except ValueError as error:
            yield ReportLine(ImportOutcome.REFUSED, source, f"{field}.nodeSelector", note=str(error))
            continue
        names.append(document_name(str(fields.get("name") or ""), names, f"node-config-{number}"))
        precedence = max(-MOST_PRECEDENCE, min(MOST_PRECEDENCE, len(entries) + 1 - number))
        own = {name: value for name, value in fields.items() if name not in ("name", "nodeSelector")}
        yield from _document(names[-1], own, source, field, {"nodeSelector": selector, "precedence": precedence})


def _cluster(config: Mapping[str, Any], source: str) -> Iterator[ConvertedItem]:
    fields = {name: value for name, value in config.items() if name != NODE_CONFIGS}
    if fields.get("midReclaimMode") is None:
        note = "the peer offers mid unless told otherwise; here that is said by midReclaimMode: dynamic"
        yield ReportLine(ImportOutcome.CONVERTED, source, "midReclaimMode", f"{KIND}/{CLUSTER}", note)
        fields["midReclaimMode"] = "dynamic"
    yield from _document(CLUSTER, fields, source, "", {})


def _document(
    name: str, fields: Mapping[str, Any], source: str, field: str, chosen: Mapping[str, Any]
) -> Iterator[ConvertedItem]:
    spec, target, prefix = dict(chosen), f"{KIND}/{name}", f"{field}." if field else ""
    for key, value in fields.items():
        if value is None:
            continue
        outcome, converted, note = _field(key, value)
        if converted is not None:
            spec[key] = converted
        if outcome is not ImportOutcome.CONVERTED:
            yield ReportLine(outcome, source, f"{prefix}{key}", target if converted is not None else "", note)
    yield ConvertedDocument(source, KIND, name, spec)
    yield ReportLine(ImportOutcome.CONVERTED, source, field or "cluster strategy", target)


def _field(key: str, value: Any) -> tuple[ImportOutcome, Any, str]:
    """Returns what becomes of a field, its value here (None: none), and why."""
    if key not in FIELDS:
        return ImportOutcome.DROPPED, None, "ColocationStrategy has no such field"
    if key in POLICIES and value not in POLICIES[key]:
        return ImportOutcome.CHANGED, USAGE, f"the peer counts {value!r} as usage"
    if key == "metricAggregatePolicy":
        value = _windows(value)
    if value is None or not FIELDS[key].takes(value):
        return ImportOutcome.REFUSED, None, f"{value!r} is not allowed; {FIELDS[key].allowed}"
    if key in WITHOUT_EFFECT:
        return ImportOutcome.CHANGED, value, "is kept and followed by nothing"
    return ImportOutcome.CONVERTED, value, ""


def _windows(policy: Any) -> list[str] | None:
    """Returns the durations of `{"durations": ["5m0s", …]}` in their largest whole unit; None if one is none."""
    found = []
    durations = mapping_of(policy).get("durations")
    for text in durations if isinstance(durations, list) else [None]:
        match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
        if match is None:
            return None
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        total = 3600 * hours + 60 * minutes + seconds
        unit, size = next((name, size) for name, size in (("h", 3600), ("m", 60), ("s", 1)) if total % size == 0)
        found.append(f"{total // size}{unit}")
    return found
