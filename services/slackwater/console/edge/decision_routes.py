"""/v1/decisions and /v1/why."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query

from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary, Why
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.paging import Continue, Limit, behind_key, foreign, micros, moment_of, token_of
from slackwater.console.edge.parameters import Times
from slackwater.console.edge.query import At, Node, Since, Until
from slackwater.console.ports import Reads
from slackwater.console.usecases.explain import chain, existing_decision, why
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAME = "decisions"
DecisionId = Annotated[str, Path(description="The id of a decision record.")]
Kind = Annotated[DecisionKind | None, Query(description="Only of this kind.")]
OnlyReason = Annotated[Reason | None, Query(description="Only taken for this reason.")]
Subject = Annotated[str | None, Query(description="Only about this.", examples=["batch-cpu"])]
Pod = Annotated[str | None, Query(description="Only those that act on this pod, by name or uid.")]


def decision_router(reads: Reads, times: Times) -> Routes:
    """What was decided, why, and what came of it."""
    router = Routes(prefix="/v1", tags=["decisions"])

    @router.get("/decisions", role=Role.VIEWER, summary="Decisions, newest first")
    async def list_decisions(
        node: Node = None,
        pod: Pod = None,
        kind: Kind = None,
        reason: OnlyReason = None,
        subject: Subject = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
        continue_: Continue = None,
    ) -> Listing[DecisionSummary]:
        wanted = DecisionFilter(
            node=node,
            pod=pod,
            kind=kind,
            reason=reason,
            subject=subject,
            since=times.maybe(since, "since"),
            until=times.maybe(until, "until"),
            before=_before(continue_),
            limit=limit + 1,
        )
        found = list(await reads.decisions(wanted))
        last = found[limit - 1] if len(found) > limit else None
        token = token_of(NAME, (micros(last.decided_at), last.id)) if last is not None else None
        return Listing(items=found[:limit], continue_=token)

    @router.get("/decisions/{id}", role=Role.VIEWER, summary="A decision record, whole")
    async def get_decision(id: DecisionId) -> DecisionRecord:  # noqa: A002 - the path parameter is called id
        return await existing_decision(reads, id)

    @router.get("/decisions/{id}/chain", role=Role.VIEWER, summary="From the cause of a decision to its effect")
    async def get_chain(id: DecisionId) -> Chain:  # noqa: A002 - the path parameter is called id
        return await chain(reads, id)

    @router.get("/why", role=Role.VIEWER, summary="Why a number is, or was, what it is")
    async def get_why(
        node: Annotated[str, Query(description="The node asked about.")],
        subject: Annotated[str, Query(description="What was decided.", examples=["batch-cpu"])] = "batch-cpu",
        at: At = None,
    ) -> Why:
        return await why(reads, node, subject, times.at(at))

    return router


def _before(token: str | None) -> tuple[datetime, str] | None:
    if token is None:
        return None
    key = behind_key(token, NAME)
    match key:
        case (int(at), str(identity)):
            return moment_of(at, token, NAME), identity
        case _:
            raise foreign(token, NAME)
