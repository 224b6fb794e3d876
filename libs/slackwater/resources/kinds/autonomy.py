"""Autonomy: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERAL_CODES, GENERATION, NAME, ONE_PER_POOL, Column, Document, Kind


def pool(document: Document) -> str:
    """The pool of an Autonomy."""
    return str(document["spec"].get("nodePool") or document["metadata"]["name"])


AUTONOMY: Final = Kind(
    name="Autonomy",
    plural="autonomies",
    service="ensurance",
    model="slackwater.waterline.policies.grants:Autonomy",
    table="autonomies",
    about="how far a pool may go (observe, throttle, evict), and what makes it step back from evicting",
    columns=(
        NAME,
        Column("POOL", pool, json_path=".spec.nodePool"),
        Column("MODE", ".spec.mode"),
        Column("PER-HOUR", ".spec.evictionsPerHour", "integer"),
        Column("HOLD", ".spec.holdSeconds", "number", 1),
        GENERATION,
        CHANGED_BY,
    ),
    unique=ONE_PER_POOL,
    codes=GENERAL_CODES,
    example={"mode": "evict", "nodePool": "gold"},
)
