"""GET /v1/tally."""

from __future__ import annotations

from pydantic import BaseModel

from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes
from slackwater.tally.usecases.count_nodes import CountNodes


class Tally(BaseModel):
    """Nodes by pool."""

    pools: dict[str, int]


def tally_router(count: CountNodes) -> Routes:
    router = Routes(prefix="/v1/tally", tags=["tally"])

    @router.get("", role=Role.VIEWER, operation_id="get_tally")
    async def get_tally() -> Tally:
        """The nodes that this replica counts."""
        return Tally(pools=dict(count.counts()))

    return router
