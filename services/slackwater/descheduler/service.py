"""The composition root of the descheduler."""

from __future__ import annotations

from slackwater.descheduler.adapters.cycle_rows import KeyedCycleStore
from slackwater.descheduler.edge.cluster_watch import PlacementWatch
from slackwater.descheduler.edge.events import consumers
from slackwater.descheduler.settings import DeschedulerSettings
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.descheduler.usecases.evicted_moves import RecordEvictedMove
from slackwater.resources.kinds.descheduler_profile import DESCHEDULER_PROFILE
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check


class DeschedulerService(ReplicatedService):
    """Proposes moves. Every replica folds the cluster; one of them decides for all profiles."""

    def __init__(self, settings: DeschedulerSettings, platform: Platform) -> None:
        replica = Replica("descheduler", platform)
        self.cluster = cluster = ClusterState(replica.clock, settings.collapse_ratio)
        self.store = store = KeyedCycleStore(replica.database, replica.unfenced, replica.quarantine)
        profiles = replica.serve(DESCHEDULER_PROFILE).in_force
        super().__init__(
            replica,
            consumers=consumers(RecordEvictedMove(store, cluster)),
            loops={"cluster": PlacementWatch(replica.bus, cluster)},
            checks=lambda: [Check("descheduler-profiles", True, f"{len(profiles.now.values)} profiles")],
        )


def build(settings: DeschedulerSettings, platform: Platform) -> DeschedulerService:
    """The descheduler on PostgreSQL and the process's metrics."""
    return DeschedulerService(settings, platform)
