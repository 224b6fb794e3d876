"""Documents of ensurance, as `get` and `describe` print them."""

from __future__ import annotations

from typing import Any

from slackwater.cli.output import UNKNOWN, Column, Item, clock_time


def _name(document: Item) -> str:
    return str(document["metadata"]["name"])


def _generation(document: Item) -> str:
    return str(document["metadata"]["generation"])


def _changed_by(document: Item) -> str:
    return str(document["metadata"].get("changedBy") or UNKNOWN)


def _selector(document: Item) -> str:
    """Labels in brief; `*` for all nodes."""
    selector = document["spec"].get("selector")
    if selector is None:
        return "*"
    labels = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*labels, *(one["key"] for one in selector.get("matchExpressions") or ())]) or "*"


def _rule(rule: Item) -> str:
    metric = rule["metricRule"]
    preview = ", preview" if rule.get("strategy") == "Preview" else ""
    return f"{metric['name']}>{metric['value']}:{rule['actionName']}{preview}"


def _scope(spec: Any) -> str:
    conditions = [
        f"{one['scopeName']} {one['operator']} {','.join(one['values'])}"
        for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    labels = [f"{key}={value}" for key, value in ((spec.get("labelSelector") or {}).get("matchLabels") or {}).items()]
    return "; ".join([*conditions, *labels]) or UNKNOWN


def _does(spec: Any) -> str:
    parts = []
    if spec.get("throttle") is not None:
        parts.append("throttle")
    if spec.get("eviction") is not None:
        grace = spec["eviction"].get("terminationGracePeriodSeconds")
        parts.append("evict" if grace is None else f"evict in {grace} s")
    if spec.get("disableScheduling"):
        parts.append("no new pods")
    return ", ".join(parts) or "nothing"


_TAIL = (
    Column("GENERATION", _generation, right=True),
    Column("CHANGED-BY", _changed_by, wide=True),
)
NODE_QOS = (
    Column("NAME", _name),
    Column("NODES", _selector),
    Column("MODE", lambda item: str(item["spec"].get("mode") or UNKNOWN)),
    Column("RULES", lambda item: " ".join(map(_rule, item["spec"]["rules"])) or "none"),
    *_TAIL,
)
POD_QOS = (
    Column("NAME", _name),
    Column("PODS", lambda item: _scope(item["spec"])),
    Column("ACTIONS", lambda item: ",".join(item["spec"]["allowedActions"]) or "none"),
    *_TAIL,
)
AVOIDANCE_ACTION = (
    Column("NAME", _name),
    Column("DOES", lambda item: _does(item["spec"])),
    Column("COOL-DOWN", lambda item: f"{item['spec']['coolDownSeconds']:g}", right=True),
    *_TAIL,
)
AUTONOMY = (
    Column("NAME", _name),
    Column("POOL", lambda item: str(item["spec"].get("nodePool") or _name(item))),
    Column("MODE", lambda item: str(item["spec"]["mode"])),
    Column("PER-HOUR", lambda item: str(item["spec"]["evictionsPerHour"]), right=True),
    Column("HOLD", lambda item: f"{item['spec']['holdSeconds']:g}", right=True, wide=True),
    *_TAIL,
)


def _limited(item: Item, counted: str, allowed: str) -> str:
    return f"{item[counted]} of {item[allowed]}"


POOL = (
    Column("NAME", lambda item: str(item["pool"])),
    Column("MODE", lambda item: str(item["mode"])),
    Column("GRANTED", lambda item: str(item["granted"])),
    Column("EVICTED-1H", lambda item: _limited(item, "evictions_within_hour", "evictions_per_hour"), right=True),
    Column("UNRELIEVED", lambda item: _limited(item, "missed_in_a_row", "reliefs_missed"), right=True),
    Column("UNTIL", lambda item: clock_time(item["stepped_back_until"])),
    Column("BECAUSE", lambda item: item["because"] or UNKNOWN),
)
"""How far each may go now; while it has stepped back, until when and why."""


def document_lines(document: Item) -> list[str]:
    """A document with all that it says, one field a line."""
    lines = [
        f"Name:        {_name(document)}",
        f"Kind:        {document['kind']}",
        f"Generation:  {_generation(document)}",
        f"Changed by:  {_changed_by(document)}",
        "Spec:",
    ]
    return lines + _tree(document["spec"], "  ")


def _tree(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict):
        return [line for name, each in value.items() for line in _field(f"{name}:", each, indent)]
    return [line for each in value for line in _field("-", each, indent)]


def _field(title: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [f"{indent}{title}", *_tree(value, indent + "  ")]
    return [f"{indent}{title} {'none' if value in (None, {}, []) else value}"]
