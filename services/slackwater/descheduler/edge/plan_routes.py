"""/v1/descheduling/plans: what a profile would propose now."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from slackwater.descheduler.usecases.plan_moves import PlanMoves, RecommendedPlan
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

ProfileName = Annotated[str, Path(description="The name of a DeschedulerProfile.")]


class PlanStep(BaseModel):
    """One move, after those before it. Loads are expected ones as shares of what is allocatable, the mean of CPU and
    memory: 0.5 is half."""

    pod: str
    pod_uid: str
    namespace: str
    workload: str
    node: str
    target: str = Field(description="Node whose room is reserved in the plan; empty: none was looked for.")
    plugin: str
    reason: str
    node_load_before: float
    node_load_after: float
    target_load_before: float
    target_load_after: float
    gain: float = Field(description="Load of the node before the move less that of the target after it.")


class MovePlan(BaseModel):
    """A recommendation on the snapshot of a moment. Nothing was recorded or published."""

    id: str = Field(description="The same plan of the same generation of a profile has the same id.")
    profile: str
    generation: int
    dry_run: bool
    made_at: datetime
    nodes: int
    pods: int
    steps: list[PlanStep]
    refusals: dict[str, int] = Field(description="How many pods are not proposed, by reason.")
    pools: dict[str, str] = Field(description="Of lowNodeLoad, by pool: why it proposes nothing more.")
    looping: list[str] = Field(description="Workloads that stay, because they were moved too often.")

    @classmethod
    def of(cls, made: RecommendedPlan) -> MovePlan:
        """Returns the plan as JSON has it."""
        plan = made.plan
        return cls(
            id=made.id,
            profile=made.profile.name,
            generation=made.profile.generation,
            dry_run=made.profile.dry_run,
            made_at=made.made_at,
            nodes=len(made.cluster.nodes),
            pods=made.pods,
            steps=[
                PlanStep(
                    pod=move.pod.name,
                    pod_uid=move.pod.uid,
                    namespace=move.pod.namespace,
                    workload=move.pod.workload,
                    node=move.pod.node,
                    target=move.target,
                    plugin=move.plugin,
                    reason=move.reason,
                    node_load_before=round(move.loads.node_before, 4),
                    node_load_after=round(move.loads.node_after, 4),
                    target_load_before=round(move.loads.target_before, 4),
                    target_load_after=round(move.loads.target_after, 4),
                    gain=round(move.gain, 4),
                )
                for move in plan.moves
            ],
            refusals=dict(plan.refusals),
            pools={pool: end.value for pool, end in plan.ends.items()},
            looping=list(plan.looping),
        )


def plan_router(plans: PlanMoves) -> Routes:
    """Returns the route of plans."""
    router = Routes(prefix="/v1", tags=["descheduler"])

    @router.get("/descheduling/plans/{profile}", role=Role.VIEWER, operation_id="get_move_plan")
    async def get_plan(profile: ProfileName) -> MovePlan:
        """What the profile's next cycle would propose if it came now, step by step."""
        return MovePlan.of(await plans(profile))

    return router
