"""Applies the plans that were asked for, and measures the gain of those whose moves have ended.

Only the replica that decides: its cycles and the plans share the rest of workloads and their fence. An applied plan,
its record, its proposals and the rest of its workloads are one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from slackwater.descheduler.domain.cycle_state import moves_by_workload
from slackwater.descheduler.domain.kept_plans import PlanState, applied, part_of, plan_changes, proposed_moves
from slackwater.descheduler.domain.plan_gain import is_measurable, measured, result_of, with_jobs
from slackwater.descheduler.domain.plan_replay import application_arguments
from slackwater.descheduler.metrics import DeschedulerMetrics
from slackwater.descheduler.ports import CycleStore, CycleUnit
from slackwater.descheduler.usecases.cycle_records import SERVICE
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.plan_moves import PlanMoves
from slackwater.descheduler.usecases.plan_records import application_record, gain_records, step_events
from slackwater.descheduler.usecases.run_cycles import Profiles
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import event_of
from slackwater.model.time import Clock
from slackwater.podmigration.jobs import job_name

KEPT_S: Final = 86_400.0
"""How long plans are kept."""
REVIEW_S: Final = 10.0
"""Between two reviews of applied plans."""
CLEAN_S: Final = 600.0
"""Between two times that old plans are dropped."""


class ApplyPlans:
    """Called at each tick."""

    def __init__(
        self,
        plans: PlanMoves,
        profiles: Profiles,
        store: CycleStore,
        jobs: JobStates,
        is_decider: Callable[[], bool],
        clock: Clock,
        meter: DeschedulerMetrics,
    ) -> None:
        self._plans = plans
        self._profiles = profiles
        self._store = store
        self._jobs = jobs
        self._is_decider = is_decider
        self._clock = clock
        self._meter = meter
        self._reviewed_s = 0.0
        self._cleaned_s = 0.0

    async def __call__(self) -> None:
        """Apply and measure what is due. Raises Conflict where another replica took over meanwhile, Unavailable."""
        if not self._is_decider():
            return
        async with self._store.observe() as unit:
            wanted = await unit.plans(PlanState.APPLYING)
        for plan in wanted:
            await self._apply(plan.id)
        now_s = self._clock.now().timestamp()
        if abs(now_s - self._reviewed_s) >= REVIEW_S:
            self._reviewed_s = now_s
            await self._review(now_s)

    async def _apply(self, identity: str) -> None:
        now = self._clock.now()
        async with self._store.decide() as unit:
            plan = await unit.plan(identity)
            if plan is None or plan.state is not PlanState.APPLYING:
                return
            profile, cluster, now_s = await self._plans.snapshot(unit, plan.profile)
            moves = moves_by_workload(await unit.moves())
            changes = plan_changes(plan, profile, cluster, moves, now_s)
            document = self._profiles.now.documents.get(plan.profile)
            stored = None if document is None else document.stored()
            arguments = application_arguments(plan, stored, part_of(cluster, plan.steps), moves, now_s)
            record = application_record(plan, changes, arguments, now)
            await unit.publish(decision_event(record, None, SERVICE))
            if changes or profile is None:
                await unit.save_plan(
                    replace(plan, state=PlanState.STALE, why="; ".join(changes)[:1024], decision=record.id)
                )
                return
            last = await unit.cycle(plan.profile)
            events = step_events(profile, last.cycle, plan.steps, record.id, now)
            for event in events:
                await unit.publish(event_of(event, source=SERVICE, time=now))
            jobs = [job_name(event.id) for event in events]
            await unit.add_moves(proposed_moves(plan.steps, jobs, now_s, profile.ttl_s))
            await unit.save_plan(applied(plan, jobs, record.id, now_s, profile.ttl_s))

    async def _review(self, now_s: float) -> None:
        """Note how the jobs of applied plans stand, measure the gain where all have ended, and drop old plans."""
        async with self._store.observe() as unit:
            plans = await unit.plans(PlanState.APPLIED)
            old = await self._old_plans(unit, now_s)
        due = [plan.id for plan in plans if is_measurable(plan, self._jobs.now, now_s)]
        noted = [plan.id for plan in plans if plan.id not in due and with_jobs(plan, self._jobs.now) != plan]
        if due or noted or old:
            async with self._store.decide() as unit:
                for identity in due:
                    await self._measure(unit, identity)
                for identity in noted:
                    plan = await unit.plan(identity)
                    if plan is not None:
                        await unit.save_plan(with_jobs(plan, self._jobs.now))
                await unit.drop_plans(old)

    async def _old_plans(self, unit: CycleUnit, now_s: float) -> list[str]:
        """Plans that are kept no longer; looked for now and then, because that reads all."""
        if abs(now_s - self._cleaned_s) < CLEAN_S:
            return []
        self._cleaned_s = now_s
        return [plan.id for plan in await unit.plans() if now_s - plan.made_s > KEPT_S]

    async def _measure(self, unit: CycleUnit, identity: str) -> None:
        plan = await unit.plan(identity)
        if plan is None or plan.state is not PlanState.APPLIED:
            return
        now = self._clock.now()
        _, cluster, now_s = await self._plans.snapshot(unit, plan.profile)
        found = measured(plan, self._jobs.now, cluster, now_s)
        for record in gain_records(found, now):
            await unit.publish(decision_event(record, None, SERVICE))
        await unit.save_plan(found)
        self._meter.gained(Counter(result_of(step).value for step in found.steps))
