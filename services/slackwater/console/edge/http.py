"""REST under /v1: the read model as JSON. The server turns errors of slackwater.model.errors into problems."""

from __future__ import annotations

from slackwater.console.domain.views import Counts
from slackwater.console.edge.decision_routes import decision_router
from slackwater.console.edge.event_routes import event_router
from slackwater.console.edge.node_routes import node_router
from slackwater.console.edge.offer_routes import offer_router
from slackwater.console.edge.parameters import Times
from slackwater.console.edge.pool_routes import pool_router
from slackwater.console.edge.shard_routes import shard_router
from slackwater.console.edge.stream import Streams
from slackwater.console.edge.stream_routes import stream_router
from slackwater.console.ports import ReadQueries
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes


def api_router(reads: ReadQueries, streams: Streams, clock: Clock) -> Routes:
    """All routes of the read model. Building them does no I/O."""
    router = Routes()
    times = Times(clock)
    for part in (
        node_router(reads, times),
        offer_router(reads, times),
        pool_router(reads, clock),
        decision_router(reads, times),
        event_router(reads, times),
        _overview_router(reads),
        shard_router(reads, clock),
        stream_router(streams, clock),
    ):
        router.routes.extend(part.routes)
    return router


def _overview_router(reads: ReadQueries) -> Routes:
    router = Routes(prefix="/v1", tags=["overview"])

    @router.get("/counts", role=Role.VIEWER, summary="The number of stored rows by kind")
    async def get_counts() -> Counts:
        return await reads.counts()

    return router
