"""/v1/decisions and /v1/why."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query

from slackwater.console.domain.pod_story import PodWhy
from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary, Why
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.paging import Continue, Limit, behind_key, foreign, micros, moment_of, token_of
from slackwater.console.edge.parameters import ALLOWED, Times
from slackwater.console.edge.query import At, Node, Pool, Since, Until
from slackwater.console.ports import Reads
from slackwater.console.usecases.explain import chain, existing_decision, why, why_pod
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.model.errors import InvalidInput
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAME = "decisions"
DecisionId = Annotated[str, Path(description="The id of a decision record.")]
Kind = Annotated[DecisionKind | None, Query(description="Only of this kind.")]
OnlyReason = Annotated[Reason | None, Query(description="Only taken for this reason.")]
Subject = Annotated[str | None, Query(description="Only about this.", examples=["batch-cpu"])]
Pod = Annotated[str | None, Query(description="Only those that act on this pod, by name or uid.", examples=["web-0"])]
Spared = Annotated[bool, Query(description="With `pod`: also those that looked at it and spared it.")]
CarriedOut = Annotated[
    bool | None,
    Query(
        alias="carriedOut",
        description="`true`: only those that somebody was to act on. `false`: only previews, what the mode did not "
        "allow, and what nobody could be asked for.",
    ),
]


def decision_router(reads: Reads, times: Times) -> Routes:
    """What was decided, why, and what came of it."""
    router = Routes(prefix="/v1", tags=["decisions"])

    @router.get("/decisions", role=Role.VIEWER, summary="Decisions, newest first")
    async def list_decisions(
        node: Node = None,
        pool: Pool = None,
        pod: Pod = None,
        spared: Spared = False,
        kind: Kind = None,
        carried_out: CarriedOut = None,
        reason: OnlyReason = None,
        subject: Subject = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
        continue_: Continue = None,
    ) -> Listing[DecisionSummary]:
        start, end = times.between(since, until)
        wanted = DecisionFilter(
            node=node,
            pool=pool,
            pod=pod,
            spared=_only_with(pod, spared),
            kind=kind,
            carried_out=carried_out,
            reason=reason,
            subject=subject,
            since=start,
            until=end,
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

    @router.get(
        "/why/pod",
        role=Role.VIEWER,
        summary="What was decided about a pod: what was done to it, when it was spared, and why",
    )
    async def get_why_pod(
        pod: Annotated[str, Query(description="Its name or uid.", examples=["encode-video-1"], min_length=1)],
        node: Annotated[str | None, Query(description="Of several pods of the name the one on this node.")] = None,
        namespace: Annotated[str | None, Query(description="Of several the one in this namespace.")] = None,
        at: Annotated[str | None, Query(description=f"Decided by then (default now): {ALLOWED}.")] = None,
        limit: Annotated[int, Query(ge=1, le=100, description="At most so many decisions.")] = 20,
    ) -> PodWhy:
        return await why_pod(reads, pod, node, namespace, times.maybe(at, "at"), limit)

    return router


def _only_with(pod: str | None, spared: bool) -> bool:
    """Raises InvalidInput where it would filter nothing."""
    if spared and not pod:
        raise InvalidInput("spared: says how a pod is looked for; give pod=NAME as well", field="spared")
    return spared


def _before(token: str | None) -> tuple[datetime, str] | None:
    if token is None:
        return None
    key = behind_key(token, NAME)
    match key:
        case (int(at), str(identity)):
            return moment_of(at, token, NAME), identity
        case _:
            raise foreign(token, NAME)
