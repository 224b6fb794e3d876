"""/v1/offers and the offers of a node."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from slackwater.console.domain.views import OfferView
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.node_routes import in_pool
from slackwater.console.edge.pages import USUAL, Continue, Key, Limit, micros, paged
from slackwater.console.edge.parameters import Times
from slackwater.console.edge.query import At, Node, NodeName, Pool, Since, Until
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import existing_node
from slackwater.console.usecases.lent_report import LentReport, lent_report
from slackwater.model.errors import NotFound
from slackwater.runtime.etags import NOT_MODIFIED, IfNoneMatch, etag, unchanged
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

Degraded = Annotated[bool | None, Query(description="Only offers that are (true) or are not (false) degraded.")]


def offer_router(reads: ReadQueries, times: Times) -> Routes:
    """Routes of current and past offers."""
    router = Routes(prefix="/v1", tags=["offers"])

    @router.get(
        "/nodes/{name}/offers",
        role=Role.VIEWER,
        summary="A node's offers, or with `at` the one in force then",
    )
    async def list_node_offers(
        name: NodeName,
        at: At = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = USUAL,
        continue_: Continue = None,
    ) -> Listing[OfferView]:
        await existing_node(reads, name)
        if at is not None:
            found = await reads.offer_at(name, times.at(at))
            return Listing(items=[found] if found else [])
        offers = sorted(await reads.offers(name, *times.span(since, until)), key=_history_key)
        return paged(offers, _history_key, continue_, limit, "node-offers")

    @router.get(
        "/nodes/{name}/offer",
        role=Role.VIEWER,
        summary="A node's offer in force; its ETag is its generation",
        response_model=OfferView,
        responses=NOT_MODIFIED,
    )
    async def get_offer(name: NodeName, response: Response, if_none_match: IfNoneMatch = None) -> OfferView | Response:
        offer = (await existing_node(reads, name)).offer
        if offer is None:
            raise NotFound(
                f"node {name} has no offer yet: it needs a report and a prediction",
                code="offer_not_found",
                field="name",
            )
        response.headers["etag"] = etag(offer.generation)
        if unchanged(if_none_match, etag(offer.generation)):
            return Response(status_code=304, headers={"etag": etag(offer.generation)})
        return offer

    @router.get("/offers", role=Role.VIEWER, summary="The offer in force of every node, by node")
    async def list_offers(
        node: Node = None,
        pool: Pool = None,
        degraded: Degraded = None,
        limit: Limit = USUAL,
        continue_: Continue = None,
    ) -> Listing[OfferView]:
        inside = None if pool is None else await in_pool(reads, pool)
        found = [
            offering.offer
            for offering in await reads.nodes()
            if offering.offer is not None
            and node in (None, offering.name)
            and (inside is None or offering.name in inside)
            and degraded in (None, offering.offer.degraded is not None)
        ]
        return paged(found, lambda offer: (offer.node,), continue_, limit, "offers")

    @router.get("/offers/use", role=Role.VIEWER, summary="What lower tiers use of the offers, and beyond them")
    async def get_offer_use() -> LentReport:
        return await lent_report(reads, times.at(None))

    return router


def _history_key(offer: OfferView) -> Key:
    return (micros(offer.offered_at), offer.node, offer.event_id)
