"""Runs the cycles of profiles that are due: by their interval, or because of an event.

The replica that owns the key of descheduling decides for all profiles. A cycle, its record, the proposed moves and the
rest of their workloads are one transaction, which is refused once another replica has taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Any, Final

from slackwater.descheduler.domain.cycle_replay import replay_arguments
from slackwater.descheduler.domain.cycle_state import OWNER_KEY, ProfileCycle, WorkloadMove, moves_by_workload
from slackwater.descheduler.domain.kept_plans import applied, kept_plan, plan_id, proposed_moves
from slackwater.descheduler.domain.move_jobs import open_moves
from slackwater.descheduler.domain.plan_gain import imbalances_of
from slackwater.descheduler.metrics import DeschedulerMetrics
from slackwater.descheduler.ports import CycleStore, CycleUnit
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.descheduler.usecases.cycle_records import SERVICE, cycle_record, outcome_of
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.plan_records import step_events
from slackwater.descheduling.documents import DeschedulerProfile
from slackwater.descheduling.placement import ClusterPlacement
from slackwater.descheduling.profile import CycleTrigger, DeclaredProfile
from slackwater.descheduling.profile_cycle import ProfilePlan, run_profile
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import event_of
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.podmigration.jobs import job_name
from slackwater.resources.in_force import ResourcesInForce
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

MOST_REPLAYED: Final = 400
"""Nodes and pods in the arguments of a replay; records of more are compact, because a large cluster would fill the
stream with copies of itself."""
FAILED: Final = "plugin_failed"
Profiles = ResourcesInForce[DeschedulerProfile, DeclaredProfile]


class RunCycles:
    """Called at each tick. The last cycle of each profile is kept with its row, so that a new owner goes on."""

    def __init__(
        self,
        profiles: Profiles,
        cluster: ClusterState,
        store: CycleStore,
        jobs: JobStates,
        owned: Callable[[], Collection[int]],
        clock: Clock,
        meter: DeschedulerMetrics,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._store = store
        self._jobs = jobs
        self._owned = owned
        self._clock = clock
        self._meter = meter
        self._last: dict[str, float] = {}

    @property
    def is_decider(self) -> bool:
        """Whether this replica decides."""
        return partition_of(OWNER_KEY) in self._owned()

    def last_cycle_s(self, profile: str) -> float:
        """Returns when the profile had its last cycle; 0 if none is known here."""
        return self._last.get(profile, 0.0)

    async def __call__(self) -> None:
        """Run what is due. Raises Conflict where another replica took over meanwhile, Unavailable."""
        if not self.is_decider or not self._cluster.is_known:
            self._last.clear()
            return
        in_force = self._profiles.now  # documents that change meanwhile are those of the next tick
        profiles = dict(in_force.values)
        if missing := profiles.keys() - self._last.keys():
            async with self._store.observe() as unit:
                self._last |= {name: (await unit.cycle(name)).at_s for name in sorted(missing)}
        self._last = {name: at_s for name, at_s in self._last.items() if name in profiles}
        for name in sorted(profiles):
            trigger = self._due(profiles[name])
            if trigger is not None:
                window_s = max(profile.rest.loop_window_s for profile in profiles.values())
                await self._run(profiles[name], in_force.documents[name], trigger, window_s)
        if self._last:
            self._cluster.triggers.drop_before(min(self._last.values()))

    def _due(self, profile: DeclaredProfile) -> CycleTrigger | None:
        return self._cluster.triggers.due(
            profile.triggers,
            lambda node: self._cluster.is_read(node, profile.scope),
            interval_s=profile.interval_s,
            last_cycle_s=self._last[profile.name],
            now_s=self._clock.now().timestamp(),
        )

    async def _run(
        self, profile: DeclaredProfile, document: DeschedulerProfile, trigger: CycleTrigger, window_s: float
    ) -> None:
        now = self._clock.now()
        now_s = now.timestamp()
        async with self._store.decide() as unit:
            last = await unit.cycle(profile.name)
            kept = await self._kept_moves(unit, window_s, now_s)
            open_now = open_moves(kept, self._jobs.now, profile.rest.rest_s, now_s)
            cluster = self._cluster.placement(profile, open_now)
            moves = moves_by_workload(kept)
            started = perf_counter()
            try:
                plan = run_profile(cluster, profile, last.detectors, moves, now_s)
            except Exception as error:  # of a plugin that a distribution brings
                log.exception("a cycle failed", profile=profile.name, error=f"{type(error).__name__}: {error}")
                self._meter.refused({FAILED: 1})
                self._last[profile.name] = now_s
                return
            self._meter.cycle(profile.name, trigger.value, perf_counter() - started)
            cycle = replace(last, cycle=last.cycle + 1, at_s=now_s, detectors=plan.detectors)
            outcome = outcome_of(profile, plan)
            if outcome != last.outcome or (plan.moves and not profile.dry_run):
                arguments = self._replay(cluster, document, last, moves, now_s)
                figures = _figures(cluster, plan, len(open_now.pending))
                record = cycle_record(profile, cycle.cycle, trigger, plan, figures, arguments, now)
                await unit.publish(decision_event(record, None, SERVICE))
                if not profile.dry_run and plan.moves:
                    await self._propose(unit, profile, cluster, plan, (cycle.cycle, record.id), now)
            await unit.save(replace(cycle, outcome=outcome))
        self._last[profile.name] = now_s
        self._note(profile, last, plan)

    async def _propose(
        self,
        unit: CycleUnit,
        profile: DeclaredProfile,
        cluster: ClusterPlacement,
        plan: ProfilePlan,
        of: tuple[int, str],
        now: datetime,
    ) -> None:
        """Publish the moves of a cycle, and keep them as an applied plan, whose gain is measured. `of`: its number and
        the id of its record."""
        cycle, decision = of
        now_s = now.timestamp()
        identity = plan_id(profile.name, profile.generation, plan.moves, decision)
        kept = kept_plan(profile, plan, cluster, identity, imbalances_of(cluster, plan.moves, profile.basis), now_s)
        events = step_events(profile, cycle, kept.steps, decision, now)
        for move in events:
            await unit.publish(event_of(move, source=SERVICE, time=now))
        jobs = [job_name(move.id) for move in events]
        await unit.add_moves(proposed_moves(kept.steps, jobs, now_s, profile.ttl_s))
        await unit.save_plan(applied(kept, jobs, decision, now_s, profile.ttl_s, cycle))

    async def _kept_moves(self, unit: CycleUnit, window_s: float, now_s: float) -> Sequence[WorkloadMove]:
        """Reads the moves; drops those from before the window, to which no profile looks back."""
        moves = await unit.moves()
        await unit.drop([move.pod_uid for move in moves if now_s - move.moved_at_s > window_s], ())
        return [move for move in moves if now_s - move.moved_at_s <= window_s]

    def _replay(
        self,
        cluster: ClusterPlacement,
        document: DeschedulerProfile,
        last: ProfileCycle,
        moves: Any,
        now_s: float,
    ) -> dict[str, Any] | None:
        size = len(cluster.nodes) + sum(len(pods) for pods in cluster.pods.values())
        if size > MOST_REPLAYED:
            return None
        return replay_arguments(cluster, document.stored(), last.detectors, moves, now_s)

    def _note(self, profile: DeclaredProfile, last: ProfileCycle, plan: ProfilePlan) -> None:
        self._meter.proposed(Counter(move.plugin for move in plan.moves), dry_run=profile.dry_run)
        self._meter.refused({**plan.refusals, **Counter(plan.dropped.values())})
        self._meter.looping(profile.name, len(plan.looping))
        if plan.looping and f"|{','.join(plan.looping)}|" not in last.outcome:
            log.warning(
                "workloads were moved too often and stay where they are",
                profile=profile.name,
                workloads=list(plan.looping[:10]),
                count=len(plan.looping),
            )


def _figures(cluster: ClusterPlacement, plan: ProfilePlan, pending: int) -> dict[str, int]:
    return {
        "nodes": len(cluster.nodes),
        "pods": sum(len(pods) for pods in cluster.pods.values()),
        "pending moves": pending,
        "looping workloads": len(plan.looping),
    }
