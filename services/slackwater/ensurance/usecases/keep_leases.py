"""One round of what ensurance does on a timer: renew leases, declare what has changed without a report, count."""

from __future__ import annotations

from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.ensurance.usecases.pool_autonomy import PoolAutonomy
from slackwater.ensurance.usecases.reconcile_intents import ReconcileIntents
from slackwater.intents.leases import RenewLeases
from slackwater.model.time import Clock


class KeepLeases:
    """Called in a loop, every third of a lease."""

    def __init__(
        self,
        cache: GuardedNodeCache,
        clock: Clock,
        meter: EnsuranceMetrics,
        renew: RenewLeases,
        reconcile: ReconcileIntents,
        pools: PoolAutonomy,
        silent_seconds: float,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._meter = meter
        self._renew = renew
        self._reconcile = reconcile
        self._pools = pools
        self._silent_seconds = silent_seconds

    async def __call__(self) -> None:
        """Raises Unavailable, Conflict."""
        await self._renew()
        await self._reconcile()
        await self._pools()
        now = self._clock.now()
        self._meter.stepped_back(len(self._cache.stepped_back(now)))
        self._meter.closed(self._cache.closed(now))
        self._clear_gaps_of_silent_nodes()

    def _clear_gaps_of_silent_nodes(self) -> None:
        """What a silent node lacks is unknown: an alert on it would never end."""
        now, last_report_at = self._clock.now(), self._cache.contacts.last_report_at
        for node in self._cache.nodes():
            at = last_report_at.get(node.node)
            if at is not None and (now - at).total_seconds() > self._silent_seconds:
                self._meter.standing(node.node, len(node.state.limited), 0)
