"""Usage beyond CPU limits, which appears when a sample covers parts of two quota periods."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from slackwater.model.tiers import BORROWING_TIERS
from slackwater.waterline.actuation.cpu_quota import beyond_milli, waited_milli
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse


def beyond_limits(view: NodeReadings) -> Decimal:
    """Returns the milli-cores that pods of lower tiers used beyond their limits in the last
    interval, less `set_off`. With periods of a second, a pod may run in two of them within one.
    This usage is transient, so it crosses no usage waterline.
    """
    return net_beyond(view.pods)


def net_beyond(pods: Iterable[PodUse]) -> Decimal:
    """Returns `beyond_limits` of some pods."""
    beyond, waited = _beyond_and_waited(pods)
    return max(ZERO, beyond - waited)


def set_off(view: NodeReadings) -> Decimal:
    """Returns the milli-cores used beyond limits while other pods waited for as much within theirs.
    In half a second four of eight pods may run twice their limit and four not at all: the total is
    then steady.
    """
    return min(_beyond_and_waited(view.pods))


def _beyond_and_waited(pods: Iterable[PodUse]) -> tuple[Decimal, Decimal]:
    """Returns both sums over the same pods; the second only if the first is not 0."""
    held = [
        container
        for pod in pods
        if pod.tier in BORROWING_TIERS
        for container in pod.containers
        if container.quota_us is not None
    ]
    beyond = sum(map(beyond_milli, held), ZERO)
    return beyond, sum(map(waited_milli, held), ZERO) if beyond else ZERO
