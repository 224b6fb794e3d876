"""/v1/move-plans: plans that are made, kept, applied and measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel, Field

from slackwater.descheduler.domain.kept_plans import KeptPlan, KeptStep, PlanState, StepCheck
from slackwater.descheduler.usecases.keep_plans import KeepPlans, ShownPlan
from slackwater.model.bounds import Name
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes

PlanId = Annotated[str, Path(description="The id of a plan.")]


class WantedPlan(BaseModel):
    """Of which profile a plan is wanted."""

    profile: Name = Field(description="The name of a DeschedulerProfile.", examples=["balance"])


class KeptPlanStep(BaseModel):
    """One move, after those before it. Loads are shares of what is allocatable, the mean of the resources that the
    profile balances: 0.5 is half."""

    pod: str
    pod_uid: str
    namespace: str
    workload: str
    node: str
    target: str = Field(description="Node that the plan chose; empty: none was looked for.")
    plugin: str
    reason: str
    node_load_before: float
    node_load_after: float
    target_load_before: float
    target_load_after: float
    gain: float = Field(description="Expected: load of the node before the move less that of the target after it.")
    feasible: bool | None = Field(description="Whether the present snapshot allows the step; null once it is applied.")
    problem: str = Field(description="What is against the step on the present snapshot.")
    gain_now: float | None = Field(description="The gain that the present snapshot lets expect.")
    job: str = Field(description="Its PodMigrationJob; empty before the plan is applied.")
    phase: str = Field(description="Of the job.")
    outcome: str = Field(description="What the job left behind.")
    measured_gain: float | None = Field(description="By the loads after the moves; null: not measured.")

    @classmethod
    def of(cls, step: KeptStep, check: StepCheck | None) -> KeptPlanStep:
        """Returns a step as JSON has it."""
        return cls(
            pod=step.pod,
            pod_uid=step.pod_uid,
            namespace=step.namespace,
            workload=step.workload,
            node=step.node,
            target=step.target,
            plugin=step.plugin,
            reason=step.reason,
            node_load_before=round(step.loads.node_before, 4),
            node_load_after=round(step.loads.node_after, 4),
            target_load_before=round(step.loads.target_before, 4),
            target_load_after=round(step.loads.target_after, 4),
            gain=round(step.expected_gain, 4),
            feasible=None if check is None else not check.problem,
            problem="" if check is None else check.problem,
            gain_now=None if check is None or check.problem else round(check.loads.gain, 4),
            job=step.job,
            phase=step.phase,
            outcome=step.outcome,
            measured_gain=_rounded(step.gain),
        )


class KeptMovePlan(BaseModel):
    """A plan of a profile, kept for a day. Gains are means over its steps; imbalance is the standard deviation of the
    loads of the profile's nodes."""

    id: str = Field(description="The same moves of the same generation of a profile renew the plan that has them.")
    profile: str
    generation: int = Field(description="Of the profile.")
    state: PlanState
    why: str = Field(description="What changed, of a stale plan.")
    made_at: datetime
    applied_at: datetime | None
    measured_at: datetime | None
    cycle: int | None = Field(description="The cycle that applied it by itself; null: it was asked for.")
    decision_id: str = Field(description="The record of its application.")
    nodes: int
    pods: int
    expected_gain: float
    measured_gain: float | None
    imbalance_before: float
    imbalance_expected: float
    imbalance_measured: float | None
    changes: list[str] = Field(description="What is no longer as the plan assumed; empty: it may be applied.")
    obstacles: list[str] = Field(description="Why its moves could not be carried out now, such as a pool's mode.")
    steps: list[KeptPlanStep]
    refusals: dict[str, int] = Field(description="How many pods are not proposed, by reason.")
    pools: dict[str, str] = Field(description="Of lowNodeLoad, by pool: why it proposes nothing more.")
    looping: list[str] = Field(description="Workloads that stay, because they were moved too often.")

    @classmethod
    def of(cls, shown: ShownPlan) -> KeptMovePlan:
        """Returns a plan as JSON has it."""
        plan = shown.plan
        checks: Sequence[StepCheck | None] = shown.checks or [None] * len(plan.steps)
        return cls(
            id=plan.id,
            profile=plan.profile,
            generation=plan.profile_generation,
            state=plan.state,
            why=plan.why,
            made_at=_required_time(plan.made_s),
            applied_at=_time(plan.applied_s),
            measured_at=_time(plan.measured_s),
            cycle=plan.cycle,
            decision_id=plan.decision,
            nodes=plan.nodes,
            pods=plan.pods,
            expected_gain=round(plan.expected_gain, 4),
            measured_gain=_rounded(plan.measured_gain),
            imbalance_before=round(plan.imbalance_before, 4),
            imbalance_expected=round(plan.imbalance_expected, 4),
            imbalance_measured=_rounded(plan.imbalance_measured),
            changes=list(shown.changes),
            obstacles=list(shown.obstacles),
            steps=[KeptPlanStep.of(step, check) for step, check in zip(plan.steps, checks, strict=True)],
            refusals=dict(plan.refusals),
            pools=dict(plan.pools),
            looping=list(plan.looping),
        )


class MovePlanSummary(BaseModel):
    """A plan in the list."""

    id: str
    profile: str
    state: PlanState
    made_at: datetime
    cycle: int | None
    steps: int
    expected_gain: float
    measured_gain: float | None

    @classmethod
    def of(cls, plan: KeptPlan) -> MovePlanSummary:
        """Returns a plan as the list has it."""
        return cls(
            id=plan.id,
            profile=plan.profile,
            state=plan.state,
            made_at=_required_time(plan.made_s),
            cycle=plan.cycle,
            steps=len(plan.steps),
            expected_gain=round(plan.expected_gain, 4),
            measured_gain=_rounded(plan.measured_gain),
        )


class MovePlanList(BaseModel):
    """Plans, the newest first."""

    items: list[MovePlanSummary]


def move_plan_router(plans: KeepPlans) -> Routes:
    """Returns the routes of kept plans."""
    router = Routes(prefix="/v1", tags=["descheduler"])

    @router.get("/move-plans", role=Role.VIEWER, operation_id="list_move_plans")
    async def list_plans() -> MovePlanList:
        """The plans of the last day: recommended, applied by operators, and those of cycles."""
        return MovePlanList(items=[MovePlanSummary.of(plan) for plan in await plans.every()])

    @router.post(
        "/move-plans",
        role=Role.OPERATOR,
        operation_id="make_move_plan",
        status_code=201,
        responses={200: {"model": KeptMovePlan, "description": "It was there, or is only tried."}},
    )
    async def make_plan(wanted: WantedPlan, response: Response, dry_run: DryRun = False) -> KeptMovePlan:
        """Make a plan on the present snapshot and keep it. Nothing is moved."""
        shown, is_new = await plans.make(wanted.profile, dry_run=dry_run)
        response.status_code = 201 if is_new and not dry_run else 200
        return KeptMovePlan.of(shown)

    @router.get("/move-plans/{plan}", role=Role.VIEWER, operation_id="get_kept_move_plan")
    async def get_plan(plan: PlanId) -> KeptMovePlan:
        """A plan with its steps: feasible or not now, and once it is applied what became of them."""
        return KeptMovePlan.of(await plans.one(plan))

    @router.post("/move-plans/{plan}/apply", role=Role.OPERATOR, operation_id="apply_move_plan")
    async def apply_plan(plan: PlanId, dry_run: DryRun = False) -> KeptMovePlan:
        """Propose the moves of a plan, once. Refused with `plan_stale`, which says what changed, if the cluster is no
        longer what the plan assumed, and with `plan_blocked` where a pool evicts nothing. The state `applying` becomes
        `applied` or `stale` within seconds."""
        return KeptMovePlan.of(await plans.apply(plan, dry_run=dry_run))

    return router


def _required_time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _time(at_s: float | None) -> datetime | None:
    return None if at_s is None else _required_time(at_s)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
