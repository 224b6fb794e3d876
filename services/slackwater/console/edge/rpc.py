"""gRPC for platforms: the same use cases as the REST routes. It imports grpc, so only serving processes import it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

import grpc.aio

from slackwater.console.domain.conditions import as_of
from slackwater.console.domain.offer_table import WantedOffers
from slackwater.console.domain.views import NodeView
from slackwater.console.edge.pages import behind_key, token_of
from slackwater.console.edge.rpc_messages import LIVENESS, node_message, watch_message
from slackwater.console.ports import OfferLog, ReadQueries
from slackwater.console.usecases.explain import existing_node
from slackwater.console.usecases.find_nodes import NodeFilter, find_nodes
from slackwater.console.usecases.watch_offers import watch_offers
from slackwater.model.errors import InvalidInput, NotFound, Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.rpc_guard import Exhausted
from slackwater.runtime.service import RpcPart
from slackwater.v1 import colocation_service_pb2 as messages
from slackwater.v1 import colocation_service_pb2_grpc as stubs
from slackwater.v1 import node_pb2

NAME = "slackwater.v1.ColocationService"
ROLES = {"GetNode": Role.VIEWER, "ListNodes": Role.VIEWER, "WatchOffers": Role.VIEWER}
LIST = "nodes"
"""REST uses the same names, so page tokens work in both."""
MOST_NODES = 1000
USUAL_PAGE, LARGEST_PAGE = 100, 1000
USUAL_BOOKMARK_SECONDS, LONGEST_BOOKMARK_SECONDS = 5, 60
SLOW_SECONDS = 30.0
"""A reader that takes no message for this long is disconnected; it may resume with its token."""
TOKEN_TRAILER = "slackwater-resume-token"  # noqa: S105 - the name of a trailer, no secret


@dataclass(frozen=True, slots=True)
class Colocation:
    """The sources of the RPCs. `offer_validity` is how long an offer stays valid without further updates."""

    reads: ReadQueries
    offers: OfferLog
    clock: Clock
    offer_validity: timedelta
    slow_seconds: float = SLOW_SECONDS


def rpc_part(colocation: Colocation) -> RpcPart:
    """The service, to be registered in the process's server."""

    def add(server: grpc.aio.Server, leaving: asyncio.Event) -> None:
        stubs.add_ColocationServiceServicer_to_server(ColocationRpc(colocation, leaving), server)

    return RpcPart(NAME, ROLES, add)


class ColocationRpc(stubs.ColocationServiceServicer):
    """Translates requests, calls a use case, and translates the result. The guard handles errors."""

    def __init__(self, colocation: Colocation, leaving: asyncio.Event) -> None:
        self._colocation = colocation
        self._leaving = leaving

    async def GetNode(  # noqa: N802 - the contract's name
        self,
        request: messages.GetNodeRequest,
        context: grpc.aio.ServicerContext[messages.GetNodeRequest, messages.GetNodeResponse],
    ) -> messages.GetNodeResponse:
        if not request.name:
            raise InvalidInput("name: is empty; give a node name from ListNodes", field="name")
        # HTTP refuses a NUL at its edge; PostgreSQL's driver would answer with its own message.
        if "\0" in request.name:
            raise InvalidInput("name: a NUL character is not allowed; give a node name from ListNodes", field="name")
        try:
            node = await existing_node(self._colocation.reads, request.name)
        except NotFound as error:
            raise NotFound(error.message, code=error.code, field="name") from None  # the field name in the request
        return messages.GetNodeResponse(node=self._message(node))

    async def ListNodes(  # noqa: N802 - the contract's name
        self,
        request: messages.ListNodesRequest,
        context: grpc.aio.ServicerContext[messages.ListNodesRequest, messages.ListNodesResponse],
    ) -> messages.ListNodesResponse:
        wanted = NodeFilter(request.pool, _liveness(request), dict(request.labels))
        after = _after(request.page_token) if request.page_token else ""
        size = _within(request.page_size, "page_size", USUAL_PAGE, LARGEST_PAGE)
        nodes, more = await find_nodes(self._colocation.reads, wanted, after, size)
        return messages.ListNodesResponse(
            nodes=[self._message(node) for node in nodes],
            next_page_token=token_of(LIST, (nodes[-1].name,)) if more else "",
        )

    async def WatchOffers(  # noqa: N802 - the contract's name
        self,
        request: messages.WatchOffersRequest,
        context: grpc.aio.ServicerContext[messages.WatchOffersRequest, messages.WatchOffersResponse],
    ) -> None:
        wanted = WantedOffers(_nodes(request), request.pool)
        every = _within(
            request.bookmark_interval_seconds,
            "bookmark_interval_seconds",
            USUAL_BOOKMARK_SECONDS,
            LONGEST_BOOKMARK_SECONDS,
        )
        at = self._colocation
        token = request.resume_token
        try:
            async with aclosing(
                watch_offers(at.offers, at.clock, wanted, token, float(every), self._leaving)
            ) as updates:
                async for update in updates:
                    await self._send(context, watch_message(update, at.offer_validity))
                    token = update.token
        except Unavailable:
            context.set_trailing_metadata(((TOKEN_TRAILER, token),) if token else ())
            raise

    def _message(self, node: NodeView) -> node_pb2.Node:
        return node_message(as_of(node, self._colocation.clock.now()), self._colocation.offer_validity)

    async def _send(
        self,
        context: grpc.aio.ServicerContext[messages.WatchOffersRequest, messages.WatchOffersResponse],
        message: messages.WatchOffersResponse,
    ) -> None:
        """Sends one message at a time, so that only the transport's own window is buffered for a client."""
        try:
            async with asyncio.timeout(self._colocation.slow_seconds):
                await context.write(message)
        except TimeoutError:
            raise Exhausted(
                f"no message was taken for {self._colocation.slow_seconds:.0f} s; connect again with the resume token",
                code="too_slow",
            ) from None


def _within(asked: int, field: str, usual: int, most: int) -> int:
    if not 0 <= asked <= most:
        raise InvalidInput(f"{field}: {asked} is not allowed; give 1 to {most}, or 0 for {usual}", field=field)
    return asked or usual


def _nodes(request: messages.WatchOffersRequest) -> frozenset[str]:
    if len(request.nodes) > MOST_NODES:
        raise InvalidInput(
            f"nodes: {len(request.nodes)} are too many; give at most {MOST_NODES}, or none for all", field="nodes"
        )
    if "" in request.nodes:
        raise InvalidInput("nodes: a name is empty; leave the list out for all nodes", field="nodes")
    return frozenset(request.nodes)


def _liveness(request: messages.ListNodesRequest) -> frozenset[str]:
    words = {number: word for word, number in LIVENESS.items()}
    for number in request.liveness:
        if number not in words:
            raise InvalidInput(
                f"liveness: {number} is not allowed; give LIVENESS_FRESH, LIVENESS_STALE or LIVENESS_LOST",
                field="liveness",
            )
    return frozenset(words[number] for number in request.liveness)


def _after(token: str) -> str:
    """The name in a page token. Raises InvalidInput for a token of another list."""
    try:
        return str(behind_key(token, LIST)[0])
    except InvalidInput:
        raise InvalidInput(
            "page_token: was not issued for this list; leave it out for the first page", field="page_token"
        ) from None
