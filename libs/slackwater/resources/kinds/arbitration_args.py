"""ArbitrationArgs: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind
from slackwater.resources.names import CLUSTER

ARBITRATION_ARGS: Final = Kind(
    name="ArbitrationArgs",
    plural="arbitrationargs",
    short=("arbitration",),
    service="migration",
    model="slackwater.podmigration.documents:ArbitrationArgsDocument",
    hooks="slackwater.migration.usecases.arbitration_documents:ArbitrationArgsHooks",
    parent=CLUSTER,
    inherits=False,
    about="how many pods may be moved at a time, and which first",
    columns=(
        NAME,
        Column("ENABLED", ".spec.enabled", "boolean"),
        Column("INTERVAL", ".spec.interval"),
        Column("QPS", ".spec.processQueueQPS", "number"),
        Column("PER-NODE", ".spec.maxMigratingPerNode", "integer"),
        Column("GLOBALLY", ".spec.maxMigratingGlobally", "integer", 1),
        GENERATION,
        CHANGED_BY,
    ),
    example={"interval": "10s", "maxMigratingPerNode": 1},
)
