"""Who may be throttled, and in which order. The order is total: two pods never compare equal."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.snapshot import PodSample

_TIER_RANK = {Tier.FREE: 0, Tier.BATCH: 1}


def protection(pod: PodSample) -> str | None:
    """Why a pod is never touched, or None if it may be: only batch and free pods of class BE give way."""
    if pod.tier not in _TIER_RANK:
        return f"tier {pod.tier} is protected"
    if pod.qos is not QoSClass.BE:
        return f"QoS class {pod.qos} is protected"
    return None


def order_key(pod: PodSample) -> tuple[int, int, int, float, str]:
    """Ascending: lower tier, lower priority, higher CPU usage, newest start, uid."""
    rank = _TIER_RANK.get(pod.tier, len(_TIER_RANK))
    return (rank, pod.priority, -pod.usage_milli, -pod.started_at.timestamp(), pod.uid)


def in_order(pods: Iterable[PodSample]) -> list[PodSample]:
    """All pods, the first to give way first; restoring goes through the same list from its end."""
    return sorted(pods, key=order_key)
