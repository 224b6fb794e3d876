"""NodeQOS: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, Column, Kind
from slackwater.resources.names import CLUSTER

CELLS: Final = "slackwater.cli.guard_columns"

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
        Column("NODES", f"{CELLS}:selected_nodes", json_path=".spec.selector.matchLabels"),
        Column("MODE", ".spec.mode"),
        Column("RULES", f"{CELLS}:rules", json_path=".spec.rules[*].name"),
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
