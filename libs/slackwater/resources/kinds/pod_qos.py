"""PodQOS: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, NO_VALUE, Column, Document, Kind


def selected_pods(document: Document) -> str:
    """The pod selectors of a PodQOS."""
    spec = document["spec"]
    conditions = [
        f"{expression['scopeName']} {expression['operator']} {','.join(expression['values'])}"
        for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    ]
    labels = [f"{key}={value}" for key, value in ((spec.get("labelSelector") or {}).get("matchLabels") or {}).items()]
    return "; ".join([*conditions, *labels]) or NO_VALUE


def allowed_actions(document: Document) -> str:
    """The actions that a PodQOS allows."""
    return ",".join(document["spec"]["allowedActions"]) or "none"


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
        Column("PODS", selected_pods),
        Column("ACTIONS", allowed_actions, json_path=".spec.allowedActions"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=GENERAL_CODES,
    example={
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle"],
    },
)
