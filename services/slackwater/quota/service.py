"""The composition root of quota."""

from __future__ import annotations

import asyncio

from slackwater.quota.edge.cluster_watch import ClusterWatch
from slackwater.quota.settings import QuotaSettings
from slackwater.quota.usecases.cluster_totals import ClusterTotals
from slackwater.resources.kinds.quota_profile import QUOTA_PROFILE
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService


class QuotaService(ReplicatedService):
    """Arbitrates claims by elastic quotas."""

    def __init__(self, settings: QuotaSettings, platform: Platform) -> None:
        replica = Replica("quota", platform)
        changed = asyncio.Event()
        self.totals = totals = ClusterTotals(replica.clock, changed.set)
        profiles = replica.serve(QUOTA_PROFILE).in_force

        super().__init__(
            replica,
            consumers=(),
            loops={"cluster": ClusterWatch(replica.bus, totals)},
        )


def build(settings: QuotaSettings, platform: Platform) -> QuotaService:
    """Quota on PostgreSQL and the process's metrics."""
    return QuotaService(settings, platform)
