"""/v1/shards: the owner of each partition."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from slackwater.console.domain.shards import ShardView, shard_views
from slackwater.console.edge.api_models import Listing
from slackwater.console.ports import ReadQueries
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

Service = Annotated[str | None, Query(description="Only partitions of this service.")]


def shard_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(prefix="/v1", tags=["control loop"])

    @router.get("/shards", role=Role.VIEWER, summary="The replica that owns each partition of each service")
    async def list_shards(service: Service = None) -> Listing[ShardView]:
        shards = shard_views(await reads.processes(), clock.now())
        return Listing(items=[shard for shard in shards if service in (None, shard.service)])

    return router
