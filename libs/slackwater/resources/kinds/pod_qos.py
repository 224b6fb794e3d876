"""PodQOS: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, Column, Kind

CELLS: Final = "slackwater.cli.guard_columns"

POD_QOS: Final = Kind(
    name="PodQOS",
    plural="podqos",
    short=("pqos",),
    service="ensurance",
    model="slackwater.waterline.policies.podqos:PodQos",
    table="pod_qos",
    about="which pods may suffer which avoidance actions",
    columns=(
        NAME,
        Column("PODS", f"{CELLS}:selected_pods"),
        Column("ACTIONS", f"{CELLS}:allowed_actions", json_path=".spec.allowedActions"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=GENERAL_CODES,
    example={
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle"],
    },
)
