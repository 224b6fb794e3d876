"""Cells of ensurance's resources, and pools, as `get` prints them."""

from __future__ import annotations

from slackwater.cli.output import UNKNOWN, Item, TableColumn, clock_time


def selected_nodes(document: Item) -> str:
    """The node selector in short form; `*` for all nodes."""
    selector = document["spec"].get("selector")
    if selector is None:
        return "*"
    labels = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*labels, *(expression["key"] for expression in selector.get("matchExpressions") or ())]) or "*"


def rules(document: Item) -> str:
    """The rules of a NodeQOS in short form."""
    return " ".join(map(_rule, document["spec"]["rules"])) or "none"


def _rule(rule: Item) -> str:
    metric = rule["metricRule"]
    dry_run = ", dry run" if rule.get("strategy") == "Preview" else ""
    return f"{metric['name']}>{metric['value']}:{rule['actionName']}{dry_run}"


def selected_pods(document: Item) -> str:
    """The pod selectors of a PodQOS."""
    spec = document["spec"]
    conditions = [
        f"{expression['scopeName']} {expression['operator']} {','.join(expression['values'])}"
        for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    labels = [f"{key}={value}" for key, value in ((spec.get("labelSelector") or {}).get("matchLabels") or {}).items()]
    return "; ".join([*conditions, *labels]) or UNKNOWN


def allowed_actions(document: Item) -> str:
    """The actions that a PodQOS allows."""
    return ",".join(document["spec"]["allowedActions"]) or "none"


def effects(document: Item) -> str:
    """The effects of an AvoidanceAction."""
    spec, parts = document["spec"], []
    if spec.get("throttle") is not None:
        parts.append("throttle")
    if spec.get("memory") is not None:
        parts.append("throttle memory")
    if spec.get("eviction") is not None:
        grace = spec["eviction"].get("terminationGracePeriodSeconds")
        parts.append("evict" if grace is None else f"evict in {grace} s")
    if spec.get("disableScheduling"):
        parts.append("no new pods")
    return ", ".join(parts) or "nothing"


def pool(document: Item) -> str:
    """The pool of an Autonomy."""
    return str(document["spec"].get("nodePool") or document["metadata"]["name"])


def _limited(item: Item, counted: str, allowed: str) -> str:
    return f"{item[counted]} of {item[allowed]}"


POOL = (
    TableColumn("NAME", lambda item: str(item["pool"])),
    TableColumn("MODE", lambda item: str(item["mode"])),
    TableColumn("GRANTED", lambda item: str(item["granted"])),
    TableColumn("EVICTED-1H", lambda item: _limited(item, "evictions_within_hour", "evictions_per_hour"), right=True),
    TableColumn("UNRELIEVED", lambda item: _limited(item, "missed_in_a_row", "reliefs_missed"), right=True),
    TableColumn("UNTIL", lambda item: clock_time(item["stepped_back_until"])),
    TableColumn("BECAUSE", lambda item: item["because"] or UNKNOWN),
)
"""The current mode of each pool; after a step back also its end and reason."""
