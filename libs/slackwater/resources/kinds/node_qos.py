"""NodeQOS: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, Column, Document, Kind
from slackwater.resources.names import CLUSTER


def selected_nodes(document: Document) -> str:
    """The node selector in short form; `*` for all nodes."""
    selector = document["spec"].get("selector")
    if selector is None:
        return "*"
    labels = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*labels, *(expression["key"] for expression in selector.get("matchExpressions") or ())]) or "*"


def rules(document: Document) -> str:
    """The rules of a NodeQOS in short form."""
    return " ".join(map(_rule, document["spec"]["rules"])) or "none"


def _rule(rule: Document) -> str:
    metric = rule["metricRule"]
    dry_run = ", dry run" if rule.get("strategy") == "Preview" else ""
    return f"{metric['name']}>{metric['value']}:{rule['actionName']}{dry_run}"


NODE_QOS: Final = Kind(
    name="NodeQOS",
    plural="nodeqos",
    short=("nqos",),
    service="ensurance",
    model="slackwater.waterline.policies.rules:NodeQosRules",
    parent=CLUSTER,
    parent_model="slackwater.waterline.nodeqos:NodeQos",
    parent_remedy="it is the whole cluster's and always there; change it with PUT",
    inherits=False,
    table="node_qos",
    about="rules that throttle or evict pods of some nodes; `default` also says how far the whole cluster may go",
    columns=(
        NAME,
        Column("NODES", selected_nodes, json_path=".spec.selector.matchLabels"),
        Column("MODE", ".spec.mode"),
        Column("RULES", rules, json_path=".spec.rules[*].name"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=GENERAL_CODES,
    example={
        "selector": {"matchLabels": {"slackwater.io/node-pool": "gold"}},
        "rules": [
            {
                "name": "busy-node",
                "metricRule": {"name": "node_cpu_usage_ratio", "value": "85%"},
                "actionName": "throttle",
            }
        ],
    },
)
