"""MaintenanceWindow: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, ONE_PER_POOL, Column, Kind
from slackwater.resources.names import CLUSTER

MAINTENANCE_WINDOW: Final = Kind(
    name="MaintenanceWindow",
    plural="maintenancewindows",
    short=("mw",),
    service="ensurance",
    model="example_kind:MaintenanceWindow",
    hooks="example_kind:MaintenanceWindowHooks",
    parent=CLUSTER,
    about="when nodes may be drained, and how many at once",
    columns=(NAME, Column("DRAINED", ".spec.drainedPercent", "integer"), GENERATION, CHANGED_BY),
    unique=ONE_PER_POOL,
    example={"nodePool": "gold", "drainedPercent": 20},
)
