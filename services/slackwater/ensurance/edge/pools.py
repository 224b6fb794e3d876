"""GET /v1/pools: how far each pool may go now, and what its guards have counted."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.usecases.pool_autonomy import PoolAutonomy, PoolAutonomyState
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes


class PoolView(BaseModel):
    """`mode` is what the pool may do now, `granted` what its Autonomy (or the cluster's NodeQOS) allows. They differ
    while it has stepped back: since `stepped_back_at`, no sooner than `stepped_back_until` forward again, `because` of
    one of the guards."""

    pool: str
    mode: Mode
    granted: Mode
    stepped_back_at: datetime | None
    stepped_back_until: datetime | None
    because: str
    evictions_within_hour: int
    evictions_per_hour: int
    missed_in_a_row: int
    reliefs_missed: int


class PoolList(BaseModel):
    """Every pool that is known here, by name."""

    items: list[PoolView]


def pools_router(autonomy: PoolAutonomy) -> Routes:
    router = Routes(prefix="/v1/pools", tags=["ensurance"])

    @router.get("", role=Role.VIEWER, operation_id="list_pools")
    async def list_pools() -> PoolList:
        """How far each pool may go now: observe, throttle or evict."""
        return PoolList(items=[_view(one) for one in await autonomy.read()])

    return router


def _view(state: PoolAutonomyState) -> PoolView:
    return PoolView(
        pool=state.pool,
        mode=state.mode,
        granted=state.policy.mode,
        stepped_back_at=state.stepped_back_at,
        stepped_back_until=state.stepped_back_until,
        because=state.because,
        evictions_within_hour=state.evictions_within_hour,
        evictions_per_hour=state.policy.evictions_per_hour,
        missed_in_a_row=state.missed_in_a_row,
        reliefs_missed=state.policy.reliefs_missed,
    )
