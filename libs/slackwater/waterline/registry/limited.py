"""What pods with limits go on with, all together, when a sample shows each of them in another part of its period."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from slackwater.model.tiers import BORROWING_TIERS
from slackwater.waterline.actuation.cpu_quota import beyond_milli, waited_milli
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeView
from slackwater.waterline.facts.pods import PodUse


def beyond_limits(view: NodeView) -> Decimal:
    """Milli-cores that pods of lower tiers used beyond their limits in the last interval, less `set_off`: with periods
    of a second one may run in two of them within one. It is not what they go on with, so no waterline on use is crossed
    by it."""
    return net_beyond(view.pods)


def net_beyond(pods: Iterable[PodUse]) -> Decimal:
    """`beyond_limits` of some pods."""
    beyond, waited = _beyond_and_waited(pods)
    return max(ZERO, beyond - waited)


def set_off(view: NodeView) -> Decimal:
    """Milli-cores that some used beyond their limits while others waited for as much within theirs. In half a second
    four of eight pods may have run twice what they may and four nothing: all together go on as they did."""
    return min(_beyond_and_waited(view.pods))


def _beyond_and_waited(pods: Iterable[PodUse]) -> tuple[Decimal, Decimal]:
    """Both over the same pods; the second only where there is a first."""
    held = [each for pod in pods if pod.tier in BORROWING_TIERS for each in pod.containers if each.quota_us is not None]
    beyond = sum(map(beyond_milli, held), ZERO)
    return beyond, sum(map(waited_milli, held), ZERO) if beyond else ZERO
