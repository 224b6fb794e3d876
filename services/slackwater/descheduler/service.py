"""The composition root of the descheduler."""

from __future__ import annotations

from slackwater.descheduler.adapters.cycle_rows import KeyedCycleStore
from slackwater.descheduler.edge.cluster_watch import PlacementWatch
from slackwater.descheduler.edge.events import consumers
from slackwater.descheduler.edge.move_plan_routes import move_plan_router
from slackwater.descheduler.edge.plan_routes import plan_router
from slackwater.descheduler.metrics import DeschedulerMetrics
from slackwater.descheduler.settings import DeschedulerSettings
from slackwater.descheduler.usecases.apply_plans import ApplyPlans
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.descheduler.usecases.evicted_moves import RecordEvictedMove
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.keep_plans import KeepPlans
from slackwater.descheduler.usecases.plan_moves import PlanMoves
from slackwater.descheduler.usecases.pool_modes import PoolModes
from slackwater.descheduler.usecases.run_cycles import RunCycles
from slackwater.resources.kinds.descheduler_profile import DESCHEDULER_PROFILE
from slackwater.runtime.loops import Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import process_meters


class DeschedulerService(ReplicatedService):
    """Proposes moves. Every replica folds the cluster; one of them decides for all profiles."""

    def __init__(self, settings: DeschedulerSettings, platform: Platform) -> None:
        replica = Replica("descheduler", platform)
        clock = replica.clock
        shares = {"cpu": settings.cpu_headroom_share, "memory": settings.memory_headroom_share}
        self.cluster = cluster = ClusterState(clock, settings.collapse_ratio, shares)
        self.store = store = KeyedCycleStore(replica.database, replica.unfenced, replica.quarantine)
        served = replica.serve(DESCHEDULER_PROFILE)
        profiles = served.in_force
        self.changes = {served.kind: served.changes()}
        meter = DeschedulerMetrics(process_meters())
        self.jobs = jobs = JobStates()
        self.cycles = RunCycles(profiles, cluster, store, jobs, replica.partitions.working, clock, meter)
        plans = PlanMoves(profiles, cluster, store, jobs, clock)
        apply = ApplyPlans(plans, profiles, store, jobs, lambda: self.cycles.is_decider, clock, meter)
        modes = PoolModes()
        kept = KeepPlans(plans, store, jobs, modes)
        super().__init__(
            replica,
            consumers=consumers(RecordEvictedMove(store, cluster)),
            loops={
                "cluster": PlacementWatch(replica.bus, cluster, jobs, modes),
                "cycles": Repeat(
                    work=self.cycles, seconds=settings.tick_seconds, clock=clock, missed="moves are proposed later"
                ),
                "plans": Repeat(
                    work=apply, seconds=settings.tick_seconds, clock=clock, missed="plans are applied later"
                ),
            },
            routers=lambda: [plan_router(plans), move_plan_router(kept)],
            checks=lambda: [Check("descheduler-profiles", True, f"{len(profiles.now.values)} profiles")],
        )


def build(settings: DeschedulerSettings, platform: Platform) -> DeschedulerService:
    """The descheduler on PostgreSQL and the process's metrics."""
    return DeschedulerService(settings, platform)
