"""AvoidanceAction: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, Column, Document, Kind


def effects(document: Document) -> str:
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
        Column("DOES", effects),
        Column("COOL-DOWN", ".spec.coolDownSeconds", "number"),
        GENERATION,
        CHANGED_BY,
    ),
    codes=GENERAL_CODES,
    example={"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False},
)
