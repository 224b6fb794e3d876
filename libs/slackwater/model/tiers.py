"""Tiers by priority and QoS classes, with the aliases that peers' labels use.

Ranges as in the field (koordinator apis/extension/priority.go): prod 9000-9999, mid 7000-7999,
batch 5000-5999, free 3000-3999. A priority outside every range belongs to no tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Tier(StrEnum):
    """Who gives way to whom: prod lends, mid, batch and free borrow in this order."""

    PROD = "prod"
    MID = "mid"
    BATCH = "batch"
    FREE = "free"


class QoSClass(StrEnum):
    """How a pod may be treated: LSE and LSR own CPUs, LS shares them, BE takes what is left."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


PRIORITY_RANGES: Mapping[Tier, range] = {
    Tier.PROD: range(9000, 10000),
    Tier.MID: range(7000, 8000),
    Tier.BATCH: range(5000, 6000),
    Tier.FREE: range(3000, 4000),
}
DEFAULT_PRIORITY: Mapping[Tier, int] = {Tier.PROD: 9500, Tier.MID: 7500, Tier.BATCH: 5500, Tier.FREE: 3500}

HIGH_TIERS = frozenset({Tier.PROD, Tier.MID})
"""Tiers whose usage and requests are subtracted before batch is offered anything."""

BORROWING_TIERS = frozenset({Tier.MID, Tier.BATCH, Tier.FREE})
"""Tiers that live on what prod lends."""

LABEL_TIER = ("slackwater.io/tier", "koordinator.sh/priority-class")
LABEL_QOS = ("slackwater.io/qos", "koordinator.sh/qosClass")


def tier_of_priority(priority: int) -> Tier | None:
    """The tier whose range holds `priority`, or None between the ranges."""
    for tier, span in PRIORITY_RANGES.items():
        if priority in span:
            return tier
    return None


def default_qos(tier: Tier) -> QoSClass:
    """The class of a pod that names none: prod and mid share CPUs (LS), batch and free take the rest (BE)."""
    return QoSClass.LS if tier in HIGH_TIERS else QoSClass.BE
