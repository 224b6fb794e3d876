"""ClusterColocationProfile: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind

CLUSTER_COLOCATION_PROFILE: Final = Kind(
    name="ClusterColocationProfile",
    plural="clustercolocationprofiles",
    short=("ccp",),
    service="colocation",
    model="slackwater.profiles.profile:ClusterColocationProfile",
    about="what pods of some namespaces and labels become when Kubernetes creates them",
    columns=(
        NAME,
        Column("TIER", ".spec.tier"),
        Column("QOS", ".spec.qosClass"),
        Column("PRIORITY", ".spec.priorityClass.value", "integer"),
        Column("PERCENT", ".spec.probability", "integer"),
        Column("SCHEDULER", ".spec.schedulerName", priority=1),
        Column("RESOURCES", ".spec.resourceDomain", priority=1),
        GENERATION,
        CHANGED_BY,
    ),
    example={
        "selector": {"matchLabels": {"app": "spark"}},
        "tier": "batch",
        "qosClass": "BE",
        "priorityClass": {"name": "slackwater-batch", "value": 5500},
    },
)
