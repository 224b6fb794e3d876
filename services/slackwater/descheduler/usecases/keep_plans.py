"""Plans that operators ask for: made and kept, shown with what the cluster says of them now, and asked to be applied.

Any replica serves these; the one that decides applies (apply_plans), because a workload rests after a move of any
profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.descheduler.domain.cycle_state import moves_by_workload
from slackwater.descheduler.domain.kept_plans import (
    KeptPlan,
    PlanState,
    StepCheck,
    asked,
    check_steps,
    kept_plan,
    plan_changes,
    plan_id,
)
from slackwater.descheduler.domain.plan_gain import imbalances_of, with_jobs
from slackwater.descheduler.ports import CycleStore, CycleUnit
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.plan_moves import PlanMoves
from slackwater.descheduler.usecases.pool_modes import PoolModes
from slackwater.descheduling.profile_cycle import PlannedMove
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.records import record

MOST_ATTEMPTS = 1000
"""Plans that are kept of the same moves."""


@record(frozen=True, slots=True)
class ShownPlan:
    """A kept plan; of one that is recommended, what the present snapshot says of each step, and of the whole."""

    plan: KeptPlan
    checks: Sequence[StepCheck] = ()
    changes: Sequence[str] = ()
    obstacles: Sequence[str] = ()
    """Why its moves could not be carried out now."""


class KeepPlans:
    """What the routes of plans call."""

    def __init__(self, plans: PlanMoves, store: CycleStore, jobs: JobStates, modes: PoolModes) -> None:
        self._modes = modes
        self._plans = plans
        self._store = store
        self._jobs = jobs

    async def make(self, profile: str, *, dry_run: bool) -> tuple[ShownPlan, bool]:
        """Returns a plan of a profile on the present snapshot, and whether it is a new one. The same moves again renew
        the plan that is recommended. Raises NotFound, Unavailable, Conflict."""
        made = await self._plans(profile)
        moves = made.plan.moves
        imbalances = imbalances_of(made.cluster, moves, made.profile.basis)
        async with self._store.observe() as unit:
            identity, before = await self._identity(unit, made.profile.name, made.profile.generation, moves)
            now_s = made.made_at.timestamp()
            plan = kept_plan(made.profile, made.plan, made.cluster, identity, imbalances, now_s)
            plan = replace(plan, generation=0 if before is None else before.generation)
            if not dry_run:
                await unit.save_plan(plan)
                plan = replace(plan, generation=plan.generation + 1)
        checks = check_steps(plan.steps, made.cluster, made.profile.margin, plan.basis)
        return ShownPlan(plan, checks, obstacles=self._obstacles(plan)), before is None

    async def _identity(
        self, unit: CycleUnit, profile: str, generation: int, moves: Sequence[PlannedMove]
    ) -> tuple[str, KeptPlan | None]:
        """A free id of these moves, or that of the plan that is recommended already."""
        for attempt in range(MOST_ATTEMPTS):
            identity = plan_id(profile, generation, moves, f"|{attempt}" if attempt else "")
            found = await unit.plan(identity)
            if found is None or found.state is PlanState.RECOMMENDED:
                return identity, found
        raise Conflict(f"{MOST_ATTEMPTS} plans of the same moves are kept")

    async def every(self) -> Sequence[KeptPlan]:
        """Returns all kept plans, the newest first. Raises Unavailable."""
        async with self._store.observe() as unit:
            plans = await unit.plans()
        return [with_jobs(plan, self._jobs.now) for plan in reversed(plans)]

    async def one(self, identity: str) -> ShownPlan:
        """Returns a kept plan. Raises NotFound, Unavailable."""
        async with self._store.observe() as unit:
            plan = await self._kept(unit, identity)
            return await self._shown(unit, plan)

    async def apply(self, identity: str, *, dry_run: bool) -> ShownPlan:
        """Ask for the moves of a plan, once; returns it as it is then. Raises NotFound, Unavailable, and Conflict
        `plan_stale` that names what changed, `plan_blocked` that names what is in its way."""
        async with self._store.observe() as unit:
            plan = await self._kept(unit, identity)
            shown = await self._shown(unit, plan)
            changes = [plan.why] if plan.state is PlanState.STALE else shown.changes
            if changes:
                said = f"plan {identity} is stale: {'; '.join(changes)}; make a new one"
                raise Conflict(said, code="plan_stale")
            if shown.obstacles:
                said = f"plan {identity} cannot be carried out: {'; '.join(shown.obstacles)}"
                raise Conflict(said, code="plan_blocked")
            following = asked(plan)
            if following != plan and not dry_run:
                await unit.save_plan(following)
                shown = replace(shown, plan=replace(following, generation=plan.generation + 1))
        return shown

    async def _kept(self, unit: CycleUnit, identity: str) -> KeptPlan:
        plan = await unit.plan(identity)
        if plan is None:
            raise NotFound(f"plan {identity!r} does not exist; GET /v1/move-plans lists all", code="plan_not_found")
        return with_jobs(plan, self._jobs.now)

    async def _shown(self, unit: CycleUnit, plan: KeptPlan) -> ShownPlan:
        if plan.state is not PlanState.RECOMMENDED:
            return ShownPlan(plan)
        profile, cluster, now_s = await self._plans.snapshot(unit, plan.profile)
        moves = moves_by_workload(await unit.moves())
        changes = plan_changes(plan, profile, cluster, moves, now_s)
        checks = check_steps(plan.steps, cluster, 0.0 if profile is None else profile.margin, plan.basis)
        return ShownPlan(plan, checks, changes, self._obstacles(plan))

    def _obstacles(self, plan: KeptPlan) -> Sequence[str]:
        pools = self._plans.pools(step.node for step in plan.steps)
        return self._modes.obstacles(pools)
