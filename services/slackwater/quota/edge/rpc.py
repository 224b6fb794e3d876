"""gRPC for platforms: the same use cases as the REST routes. It imports grpc, so only serving processes import it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

import grpc.aio
from pydantic import ValidationError

from slackwater.fairshare.claims import ENDED, QuotaClaim
from slackwater.model.bounds import MOST_LABELS
from slackwater.model.errors import InvalidInput, SlackwaterError
from slackwater.model.tiers import Tier
from slackwater.quota.edge.claim_models import WantedClaim, reason_and_message
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.tree_view import ClaimStanding
from slackwater.runtime.roles import Role
from slackwater.runtime.service import RpcPart
from slackwater.v1 import quantity_pb2
from slackwater.v1 import quota_service_pb2 as messages
from slackwater.v1 import quota_service_pb2_grpc as stubs

NAME: Final = "slackwater.v1.QuotaService"
ROLES: Final = {"Admit": Role.OPERATOR, "AdmitMany": Role.OPERATOR, "Release": Role.OPERATOR, "Watch": Role.VIEWER}
MOST_CLAIMS: Final = 500
"""Of one call."""
LOOK_SECONDS: Final = 0.5
"""Between two looks of a watch."""
_TIERS: Mapping[int, str] = {
    quantity_pb2.TIER_UNSPECIFIED: "batch",
    quantity_pb2.TIER_PROD: "prod",
    quantity_pb2.TIER_MID: "mid",
    quantity_pb2.TIER_BATCH: "batch",
    quantity_pb2.TIER_FREE: "free",
}
_TIER_OF = {Tier.PROD: quantity_pb2.TIER_PROD, Tier.MID: quantity_pb2.TIER_MID, Tier.BATCH: quantity_pb2.TIER_BATCH}


def rpc_part(claims: ManageClaims) -> RpcPart:
    """The service, to be registered in the process's server."""

    def add(server: grpc.aio.Server, leaving: asyncio.Event) -> None:
        stubs.add_QuotaServiceServicer_to_server(QuotaRpc(claims, leaving), server)

    return RpcPart(NAME, ROLES, add)


class QuotaRpc(stubs.QuotaServiceServicer):
    """Translates requests, calls a use case, and translates the result. The guard handles errors."""

    def __init__(self, claims: ManageClaims, leaving: asyncio.Event) -> None:
        self._claims = claims
        self._leaving = leaving

    async def Admit(  # noqa: N802 - the contract's name
        self,
        request: messages.AdmitRequest,
        context: grpc.aio.ServicerContext[messages.AdmitRequest, messages.AdmitResponse],
    ) -> messages.AdmitResponse:
        standing, _ = await self._claims.submit(_wanted(request).claim(_name(request.quota)), dry_run=request.dry_run)
        return messages.AdmitResponse(claim=_message(standing))

    async def AdmitMany(  # noqa: N802 - the contract's name
        self,
        request: messages.AdmitManyRequest,
        context: grpc.aio.ServicerContext[messages.AdmitManyRequest, messages.AdmitManyResponse],
    ) -> messages.AdmitManyResponse:
        if not 0 < len(request.claims) <= MOST_CLAIMS:
            said = f"claims: {len(request.claims)} claims; allowed: 1 to {MOST_CLAIMS}"
            raise InvalidInput(said, field="claims")
        wanted = [_claim_or_error(claim) for claim in request.claims]
        claims = [each for each in wanted if isinstance(each, QuotaClaim)]
        answers = iter(await self._claims.submit_many(claims, dry_run=request.dry_run))
        results = [next(answers) if isinstance(each, QuotaClaim) else each for each in wanted]
        return messages.AdmitManyResponse(results=[_result(result) for result in results])

    async def Release(  # noqa: N802 - the contract's name
        self,
        request: messages.ReleaseRequest,
        context: grpc.aio.ServicerContext[messages.ReleaseRequest, messages.ReleaseResponse],
    ) -> messages.ReleaseResponse:
        standing = await self._claims.release(_name(request.quota), _name(request.id, "id"), dry_run=request.dry_run)
        return messages.ReleaseResponse(claim=_message(standing))

    async def Watch(  # noqa: N802 - the contract's name
        self,
        request: messages.WatchRequest,
        context: grpc.aio.ServicerContext[messages.WatchRequest, messages.WatchResponse],
    ) -> None:
        async for claim in self.changes(_name(request.quota), _name(request.id, "id")):
            await context.write(messages.WatchResponse(claim=claim))

    async def changes(self, quota: str, claim: str) -> AsyncIterator[messages.Claim]:
        """Yields the claim as it stands, then whenever it differs, until it has ended."""
        sent: messages.Claim | None = None
        while not self._leaving.is_set():
            standing = await self._claims.claim(quota, claim)
            message = _message(standing)
            if message != sent:
                sent = message
                yield message
            if standing.kept.claim.state in ENDED:
                return
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._leaving.wait()
            except TimeoutError:
                continue


def _wanted(request: messages.AdmitRequest) -> WantedClaim:
    """Raises InvalidInput that names the field."""
    for name, amounts in (("request", request.request), ("partial_minimum", request.partial_minimum)):
        if len(amounts) > MOST_LABELS:
            raise InvalidInput(f"{name}: {len(amounts)} resources; allowed are {MOST_LABELS}", field=name)
    fields = {
        "id": request.id,
        "tier": _TIERS.get(request.tier, ""),
        "request": dict(request.request),
        "priority": request.priority,
        "non_preemptible": request.non_preemptible,
        "partial_minimum": dict(request.partial_minimum) or None,
        "workload": request.workload,
        **({"grace_seconds": request.grace_seconds} if request.HasField("grace_seconds") else {}),
    }
    try:
        return WantedClaim.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = str(first["loc"][0])
        raise InvalidInput(f"{field}: {first['msg']}", field=field) from None


def _claim_or_error(request: messages.AdmitRequest) -> QuotaClaim | SlackwaterError:
    try:
        if request.dry_run:
            raise InvalidInput("dry_run: is set of a claim; set that of the call", field="dry_run")
        return _wanted(request).claim(_name(request.quota))
    except InvalidInput as error:
        return error


def _result(answer: ClaimStanding | SlackwaterError) -> messages.AdmitResult:
    if isinstance(answer, ClaimStanding):
        return messages.AdmitResult(claim=_message(answer))
    error = messages.AdmitError(code=answer.code, message=answer.message, field=answer.field or "")
    return messages.AdmitResult(error=error)


def _name(text: str, field: str = "quota") -> str:
    # HTTP refuses a NUL at its edge; PostgreSQL's driver would answer with its own message.
    if not text or "\0" in text:
        raise InvalidInput(f"{field}: {text!r} is no name", field=field)
    return text


def _message(standing: ClaimStanding) -> messages.Claim:
    claim, place, because = standing.kept.claim, standing.place, standing.kept.because
    reason, text = reason_and_message(standing)
    message = messages.Claim(
        id=claim.id,
        quota=claim.quota,
        tier=_TIER_OF.get(claim.tier, quantity_pb2.TIER_UNSPECIFIED),
        state=f"CLAIM_STATE_{claim.state.name}",
        request=claim.request,
        admitted=claim.admitted,
        position=0 if place is None else place.position,
        queue_length=0 if place is None else place.length,
        reason=reason,
        message=text,
        decision_id="" if because is None else because.decision,
    )
    if claim.reclaim is not None:
        message.deadline.FromDatetime(datetime.fromtimestamp(claim.reclaim.deadline_s, UTC))
        message.for_quota, message.for_claim = claim.reclaim.for_quota, claim.reclaim.for_claim
    return message
