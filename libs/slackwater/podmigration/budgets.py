"""How many pods of a workload may be away at a time, and what a disruption budget still allows. Integers only.

Rounding: percents of a workload's budget are rounded down, but a given value is at least 1 and at most the number of
replicas (koordinator, GetMaxMigrating). Percents of a disruption budget are rounded up (Kubernetes, policy/v1).
"""

from __future__ import annotations

import re

from slackwater.model.records import record

IntOrPercent = int | str
"""A count, or a percent of a total as text, like `10%`."""
_PERCENT = re.compile(r"([0-9]+)%")
_FEW_REPLICAS, _MANY_REPLICAS = 4, 10


class InvalidAmountError(ValueError):
    """Neither a count nor a percent."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{value!r} is neither a whole number from 0 nor a percent like '10%'")


def scaled(value: IntOrPercent, total: int, *, round_up: bool) -> int:
    """Returns a count of `total`; a percent is rounded up or down. Raises InvalidAmountError."""
    if isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise InvalidAmountError(value)
    if isinstance(value, int):
        return value
    match = _PERCENT.fullmatch(value)
    if match is None:
        raise InvalidAmountError(value)
    share = int(match.group(1)) * total
    return -(-share // 100) if round_up else share // 100


def workload_budget(replicas: int, value: IntOrPercent | None) -> int:
    """Returns how many replicas may be migrating, or unavailable, at a time; 0 only where there are no replicas.

    Without a value: 1 of up to 3 replicas, 2 of up to 10, a tenth of more. Raises InvalidAmountError.
    """
    if value is not None:
        return min(max(scaled(value, replicas, round_up=False), 1), replicas)
    if replicas > _MANY_REPLICAS:
        return replicas // 10
    return min(2 if replicas >= _FEW_REPLICAS else 1, replicas)


def can_spare_a_replica(
    replicas: int, max_migrating: IntOrPercent | None, max_unavailable: IntOrPercent | None
) -> bool:
    """False where a move could take the whole workload down: one replica, or budgets as large as the workload."""
    budgets = (workload_budget(replicas, max_migrating), workload_budget(replicas, max_unavailable))
    return replicas > 1 and replicas not in budgets


@record(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget with the counts of its pods. At most one of the two bounds is set; without any no pod may
    be evicted."""

    name: str
    expected: int
    """Pods that its selector should match."""
    healthy: int
    """Ready pods of these."""
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    server_allows: int | None = None
    """What the API server allows at most: it counts evictions that have begun at once. None: not known."""
    unready_always: bool = False
    """unhealthyPodEvictionPolicy AlwaysAllow: unready pods may be evicted whatever the others are."""

    @property
    def needed(self) -> int:
        """Ready pods that it keeps. Raises InvalidAmountError."""
        if self.min_available is not None:
            return scaled(self.min_available, self.expected, round_up=True)
        if self.max_unavailable is not None:
            return max(self.expected - scaled(self.max_unavailable, self.expected, round_up=True), 0)
        return self.expected

    @property
    def allowed(self) -> int:
        """Ready pods that may be evicted now. Raises InvalidAmountError."""
        own = max(self.healthy - self.needed, 0)
        return own if self.server_allows is None else min(own, self.server_allows)

    @property
    def lets_unready_go(self) -> bool:
        """Whether a pod that is not ready may be evicted, without counting: it takes no ready pod's place. By policy/v1
        always, or while as many pods are ready as it keeps (IfHealthyBudget). Raises InvalidAmountError."""
        return self.unready_always or 0 < self.needed <= self.healthy
