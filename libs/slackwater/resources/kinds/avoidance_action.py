"""AvoidanceAction: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, Column, Kind

CELLS: Final = "slackwater.cli.guard_columns"

AVOIDANCE_ACTION: Final = Kind(
    name="AvoidanceAction",
    plural="avoidanceactions",
    short=("aa",),
    service="ensurance",
    model="slackwater.waterline.policies.avoidance:AvoidanceAction",
    table="avoidance_actions",
    about="what a rule does: throttle, evict, or only cordon the node",
    columns=(
        NAME,
        Column("DOES", f"{CELLS}:effects"),
        Column("COOL-DOWN", ".spec.coolDownSeconds", "number"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=GENERAL_CODES,
    example={"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False},
)
