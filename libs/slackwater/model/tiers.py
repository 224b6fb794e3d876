"""Tiers by priority, QoS classes, and the labels that select them, including koordinator's.

Ranges as in koordinator (apis/extension/priority.go): prod 9000-9999, mid 7000-7999,
batch 5000-5999, free 3000-3999. A priority outside every range belongs to no tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Tier(StrEnum):
    """The order of preference: prod lends resources; mid, batch and free borrow them in this order."""

    PROD = "prod"
    MID = "mid"
    BATCH = "batch"
    FREE = "free"


class QoSClass(StrEnum):
    """How a pod uses CPUs: LSE and LSR own them, LS shares them, BE uses the remainder."""

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
"""Tiers that run on resources that prod lends."""

PEER_PREFIX = "koord-"
"""What Koordinator writes before a tier."""
LABEL_TIER = ("slackwater.io/tier", "koordinator.sh/priority-class")
LABEL_QOS = ("slackwater.io/qos", "koordinator.sh/qosClass")


def tier_of_priority(priority: int) -> Tier | None:
    """The tier whose range contains `priority`; None outside of every range."""
    for tier, span in PRIORITY_RANGES.items():
        if priority in span:
            return tier
    return None


def default_qos(tier: Tier) -> QoSClass:
    """The class of a pod without a QoS label: LS for prod and mid, BE for batch and free."""
    return QoSClass.LS if tier in HIGH_TIERS else QoSClass.BE


def tier_named(text: str | None) -> Tier | None:
    """Returns the tier of a label's value, `batch` or `koord-batch`; None for any other text."""
    name = (text or "").removeprefix(PEER_PREFIX)
    return next((tier for tier in Tier if tier == name), None)
