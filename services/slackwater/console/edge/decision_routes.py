"""/v1/decisions and /v1/why."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from slackwater.console.domain.pod_story import PodWhy
from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary, Why
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.pages import Continue, Limit, micros, time_and_id, token_of
from slackwater.console.edge.parameters import ALLOWED, Times
from slackwater.console.edge.query import At, Node, Pool, Since, Until
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import chain, existing_decision, why, why_pod
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.model.errors import InvalidInput
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAME = "decisions"
DecisionId = Annotated[str, Path(description="The id of a decision record.")]
Kind = Annotated[DecisionKind | None, Query(description="Only decisions of this kind.")]
ExcludeKind = Annotated[
    list[DecisionKind] | None, Query(alias="excludeKind", description="No decisions of this kind; repeat for several.")
]
OnlyReason = Annotated[Reason | None, Query(description="Only decisions taken for this reason.")]
Subject = Annotated[str | None, Query(description="Only decisions about this subject.", examples=["batch-cpu"])]
Pod = Annotated[
    str | None, Query(description="Only decisions that act on this pod, by name or uid.", examples=["web-0"])
]
Spared = Annotated[bool, Query(description="With `pod`: also decisions that considered the pod and spared it.")]
CarriedOut = Annotated[
    bool | None,
    Query(
        alias="carriedOut",
        description="`true`: only decisions that were to be executed. `false`: only previews, decisions "
        "beyond the mode, and those with nothing to act on.",
    ),
]
WhySubject = Annotated[str, Query(description="The subject of the decision.", examples=["batch-cpu"])]
Namespace = Annotated[str | None, Query(description="If several pods have the name: the pod in this namespace.")]
DecidedBy = Annotated[str | None, Query(description=f"Decided by this time (default now): {ALLOWED}.")]


def decision_router(reads: ReadQueries, times: Times) -> Routes:
    """Routes of decisions, their reasons and their effects."""
    router = Routes(prefix="/v1", tags=["decisions"])

    @router.get("/decisions", role=Role.VIEWER, summary="Decisions, newest first")
    async def list_decisions(
        node: Node = None,
        pool: Pool = None,
        pod: Pod = None,
        spared: Spared = False,
        kind: Kind = None,
        exclude_kind: ExcludeKind = None,
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
            kinds=_kinds(kind, exclude_kind),
            carried_out=carried_out,
            reason=reason,
            subject=subject,
            since=start,
            until=end,
            before=time_and_id(continue_, NAME),
            limit=limit + 1,
        )
        decisions = list(await reads.decisions(wanted))
        last = decisions[limit - 1] if len(decisions) > limit else None
        token = token_of(NAME, (micros(last.decided_at), last.id)) if last is not None else None
        return Listing(items=decisions[:limit], continue_=token)

    @router.get("/decisions/{id}", role=Role.VIEWER, summary="A complete decision record")
    async def get_decision(id: DecisionId) -> DecisionRecord:  # noqa: A002 - the path parameter is called id
        return await existing_decision(reads, id)

    @router.get("/decisions/{id}/chain", role=Role.VIEWER, summary="From the cause of a decision to its effect")
    async def get_chain(id: DecisionId) -> Chain:  # noqa: A002 - the path parameter is called id
        return await chain(reads, id)

    _explanations(router, reads, times)
    return router


def _explanations(router: Routes, reads: ReadQueries, times: Times) -> None:
    @router.get("/why", role=Role.VIEWER, summary="Why a number has, or had, its value")
    async def get_why(
        node: Annotated[str, Query(description="The node of the number.")],
        subject: WhySubject = "batch-cpu",
        at: At = None,
    ) -> Why:
        return await why(reads, node, subject, times.at(at))

    @router.get(
        "/why/pod",
        role=Role.VIEWER,
        summary="The decisions about a pod: the actions, the times it was spared, and the reasons",
    )
    async def get_why_pod(
        pod: Annotated[str, Query(description="The pod's name or uid.", examples=["encode-video-1"], min_length=1)],
        node: Annotated[str | None, Query(description="If several pods have the name: the pod on this node.")] = None,
        namespace: Namespace = None,
        at: DecidedBy = None,
        kind: Annotated[DecisionKind | None, Query(description="Only decisions of this kind.")] = None,
        limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of decisions.")] = 20,
    ) -> PodWhy:
        return await why_pod(reads, pod, node, namespace, times.maybe(at, "at"), limit, kind)


def _kinds(kind: DecisionKind | None, excluded: list[DecisionKind] | None) -> tuple[DecisionKind, ...] | None:
    """The kinds to list; None for all."""
    if kind is None and not excluded:
        return None
    return tuple(each for each in DecisionKind if kind in (None, each) and each not in (excluded or ()))


def _only_with(pod: str | None, spared: bool) -> bool:
    """The value of `spared`. Raises InvalidInput without `pod`, because it would filter nothing."""
    if spared and not pod:
        raise InvalidInput("spared: applies only with pod; give pod=NAME as well", field="spared")
    return spared
