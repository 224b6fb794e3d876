"""/v1/pools/{pool}/offers."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from slackwater.console.domain.pools import PoolSums
from slackwater.console.domain.views import OfferView
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.pages import USUAL, Continue, Limit, behind_key, foreign, token_of
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.pool_offers import pool_offers
from slackwater.model.time import Clock
from slackwater.runtime.etags import NOT_MODIFIED, IfNoneMatch, unchanged
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAME = "pool-offers"
PoolName = Annotated[str, Path(description="A pool, as `GET /v1/nodes` shows it in `facts`.", examples=["default"])]


class PoolOffers(Listing[OfferView]):
    """One page of a pool's offers; `sums` cover the whole pool, not the page."""

    pool: str
    sums: PoolSums = Field(description="The sums of capacity and offers over all nodes of the pool.")


def pool_router(reads: ReadQueries, clock: Clock) -> Routes:
    """Routes of the pools' offers."""
    router = Routes(prefix="/v1", tags=["offers"])

    @router.get(
        "/pools/{pool}/offers",
        role=Role.VIEWER,
        summary="The offers in force of a pool's nodes, by node, with the sums over all of them",
        description="The ETag covers the answer: it changes only when an offer, node or sum of the page changes.",
        response_model=PoolOffers,
        responses=NOT_MODIFIED,
    )
    async def list_pool_offers(
        pool: PoolName, limit: Limit = USUAL, continue_: Continue = None, if_none_match: IfNoneMatch = None
    ) -> Response:
        page = await pool_offers(reads, pool, _after(continue_), limit, clock.now())
        token = token_of(NAME, (page.offers[-1].node,)) if page.more else None
        body = PoolOffers(items=list(page.offers), continue_=token, pool=pool, sums=page.sums).model_dump_json()
        tag = f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"'
        if unchanged(if_none_match, tag):
            return Response(status_code=304, headers={"etag": tag})
        return Response(body, media_type="application/json", headers={"etag": tag})

    return router


def _after(token: str | None) -> str:
    """The node in a token."""
    if token is None:
        return ""
    key = behind_key(token, NAME)
    match key:
        case (str(node),):
            return node
        case _:
            raise foreign(token, NAME)
