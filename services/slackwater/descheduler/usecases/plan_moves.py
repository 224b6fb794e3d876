"""What a profile would propose now: nothing is recorded or published."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from slackwater.descheduler.domain.cycle_state import moves_by_workload
from slackwater.descheduler.domain.kept_plans import plan_id
from slackwater.descheduler.domain.move_jobs import open_moves
from slackwater.descheduler.ports import CycleStore, CycleUnit
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.run_cycles import Profiles
from slackwater.descheduling.placement import ClusterPlacement
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.profile_cycle import ProfilePlan, run_profile
from slackwater.model.errors import NotFound, Unavailable
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.resources.kinds.descheduler_profile import DESCHEDULER_PROFILE


@record(frozen=True, slots=True)
class RecommendedPlan:
    """A plan on the snapshot of a moment. The same plan of the same profile has the same id."""

    id: str
    profile: DeclaredProfile
    made_at: datetime
    cluster: ClusterPlacement
    plan: ProfilePlan

    @property
    def pods(self) -> int:
        """How many pods were looked at."""
        return sum(len(pods) for pods in self.cluster.pods.values())


class PlanMoves:
    """Any replica plans: each folds the whole cluster."""

    def __init__(
        self, profiles: Profiles, cluster: ClusterState, store: CycleStore, jobs: JobStates, clock: Clock
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._store = store
        self._jobs = jobs
        self._clock = clock

    async def __call__(self, name: str) -> RecommendedPlan:
        """Returns what the next cycle of a profile would propose if it came now. Raises NotFound, Unavailable."""
        profile = self._profiles.now.values.get(name)
        if profile is None:
            said = f"deschedulerprofile {name!r} does not exist; GET {DESCHEDULER_PROFILE.path} lists all"
            raise NotFound(said, code=DESCHEDULER_PROFILE.code("not_found"))
        async with self._store.observe() as unit:
            last, moves = await unit.cycle(name), await unit.moves()
            _, cluster, now_s = await self.snapshot(unit, name)
        plan = run_profile(cluster, profile, last.detectors, moves_by_workload(moves), now_s)
        identity = plan_id(profile.name, profile.generation, plan.moves)
        return RecommendedPlan(identity, profile, self._clock.now(), cluster, plan)

    def pools(self, nodes: Iterable[str]) -> set[str]:
        """Returns the pools of nodes; those that are not described are left out."""
        return {pool for node in nodes if (pool := self._cluster.pool(node)) is not None}

    async def snapshot(self, unit: CycleUnit, name: str) -> tuple[DeclaredProfile | None, ClusterPlacement, float]:
        """Returns a profile (None: it does not exist), its nodes with their pods now, and the time in seconds since the
        epoch. Raises Unavailable."""
        if not self._cluster.is_known:
            raise Unavailable("what nodes run is not known yet; repeat the request")
        profile = self._profiles.now.values.get(name)
        now_s = self._clock.now().timestamp()
        rest_s = 0.0 if profile is None else profile.rest.rest_s
        moves = open_moves(await unit.moves(), self._jobs.now, rest_s, now_s)
        return profile, self._cluster.placement(profile, moves), now_s
