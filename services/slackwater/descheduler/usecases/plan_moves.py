"""What a profile would propose now: nothing is recorded or published."""

from __future__ import annotations

import hashlib
from datetime import datetime

from slackwater.descheduler.domain.cluster_placement import placement_of
from slackwater.descheduler.domain.cycle_state import moves_by_workload
from slackwater.descheduler.ports import CycleStore
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.descheduler.usecases.run_cycles import Profiles
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
    nodes: int
    pods: int
    plan: ProfilePlan


class PlanMoves:
    """Any replica plans: each folds the whole cluster."""

    def __init__(self, profiles: Profiles, cluster: ClusterState, store: CycleStore, clock: Clock) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._store = store
        self._clock = clock

    async def __call__(self, name: str) -> RecommendedPlan:
        """Returns what the next cycle of a profile would propose if it came now. Raises NotFound, Unavailable."""
        profile = self._profiles.now.values.get(name)
        if profile is None:
            said = f"deschedulerprofile {name!r} does not exist; GET {DESCHEDULER_PROFILE.path} lists all"
            raise NotFound(said, code=DESCHEDULER_PROFILE.code("not_found"))
        if not self._cluster.is_known:
            raise Unavailable("what nodes run is not known yet; repeat the request")
        now = self._clock.now()
        async with self._store.observe() as unit:
            last, moves = await unit.cycle(name), await unit.moves()
        pending = [move for move in moves if now.timestamp() < move.until_s]
        cluster = placement_of(self._cluster.view(), profile.scope, pending)
        plan = run_profile(cluster, profile, last.detectors, moves_by_workload(moves), now.timestamp())
        count = sum(len(pods) for pods in cluster.pods.values())
        return RecommendedPlan(_plan_id(profile, plan), profile, now, len(cluster.nodes), count, plan)


def _plan_id(profile: DeclaredProfile, plan: ProfilePlan) -> str:
    steps = "|".join(f"{move.pod.uid} {move.pod.node} {move.target}" for move in plan.moves)
    return hashlib.sha256(f"{profile.name}@{profile.generation}|{steps}".encode()).hexdigest()[:12]
