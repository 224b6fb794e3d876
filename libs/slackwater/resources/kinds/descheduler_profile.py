"""DeschedulerProfile: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Document, Kind


def pool(document: Document) -> str:
    """The node pool of a profile."""
    return document["spec"].get("nodePool") or "all"


def plugins(document: Document) -> str:
    """The plugins of a profile, in their order."""
    spec = document["spec"]
    names = ["LowNodeLoad"] * bool(spec.get("lowNodeLoad")) + [each["name"] for each in spec.get("plugins") or ()]
    return ",".join(names) or "none"


DESCHEDULER_PROFILE: Final = Kind(
    name="DeschedulerProfile",
    plural="deschedulerprofiles",
    short=("dp",),
    service="descheduler",
    model="slackwater.descheduling.documents:DeschedulerProfile",
    hooks="slackwater.descheduler.usecases.descheduler_profile:DeschedulerProfileHooks",
    about="which pods would be better on another node, when that is examined, and how many moves a cycle proposes",
    columns=(
        NAME,
        Column("POOL", pool, json_path=".spec.nodePool"),
        Column("PLUGINS", plugins),
        Column("INTERVAL", ".spec.intervalSeconds", "number"),
        Column("MOST", ".spec.limits.total", "integer"),
        Column("DRY-RUN", ".spec.dryRun", "boolean"),
        Column("MODE", ".spec.migrationMode", priority=1),
        GENERATION,
        CHANGED_BY,
    ),
    example={
        "nodePool": "gold",
        "intervalSeconds": 60,
        "limits": {"total": 5, "perNode": 1},
        "lowNodeLoad": {
            "nodePools": [
                {
                    "name": "all",
                    "lowThresholds": {"cpu": 45, "memory": 55},
                    "highThresholds": {"cpu": 75, "memory": 80},
                }
            ]
        },
        "plugins": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 604800}}],
    },
)
