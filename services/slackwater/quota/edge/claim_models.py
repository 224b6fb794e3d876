"""Claims in requests and answers of the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from slackwater.fairshare.claims import ClaimState, QuotaClaim, ReclaimReason, RunFinding
from slackwater.fairshare.documents import ResourceName, amounts_of
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier
from slackwater.quota.usecases.tree_view import ClaimStanding
from slackwater.waterline.policies.quantity import Amount

LONGEST_GRACE_SECONDS = 86_400.0
ClaimId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=128)]
Requested = Annotated[dict[ResourceName, Amount], Field(min_length=1, max_length=64)]


class WantedClaim(BaseModel):
    """A request for resources of a quota. CPU in cores (`2`, `500m`), memory in bytes (`4Gi`)."""

    model_config = ConfigDict(extra="forbid")

    id: ClaimId = Field(description="Chosen by the caller. The same claim again is answered as it stands.")
    tier: Literal["prod", "mid", "batch"] = Field("batch", description="Whose resources: batch-cpu for batch, …")
    request: Requested = Field(
        description="By resource; cpu and memory are those of the tier.", examples=[{"cpu": "2"}]
    )
    partial_minimum: Annotated[dict[ResourceName, Amount], Field(max_length=64)] | None = Field(
        None, description="If set, less than the request may be admitted, but no less than this."
    )
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = Field(0, description="Within the queue of the quota.")
    non_preemptible: bool = Field(False, description="Never reclaimed; admitted within the min of the quota only.")
    workload: Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00-\x1f]*$")] = Field(
        "", description="Key under which agents report what runs."
    )
    grace_seconds: Annotated[float, Field(ge=0, le=LONGEST_GRACE_SECONDS)] = Field(
        30.0, description="Time between the demand to end and the end."
    )

    def claim(self, quota: str) -> QuotaClaim:
        """Returns the claim. Raises InvalidInput for an amount that is none."""
        tier = Tier(self.tier)
        least = None if self.partial_minimum is None else _amounts(self.partial_minimum, tier, "partial_minimum")
        return QuotaClaim(
            id=self.id,
            quota=quota,
            tier=tier,
            request=_amounts(self.request, tier, "request"),
            submitted_s=0.0,
            priority=self.priority,
            non_preemptible=self.non_preemptible,
            partial_minimum=least,
            workload=self.workload,
            grace_s=self.grace_seconds,
        )


def _amounts(written: dict[str, str | float], tier: Tier, field: str) -> dict[str, int]:
    try:
        amounts = amounts_of(written)
    except ValueError as error:
        raise InvalidInput(f"{field}: {error}", field=field) from None
    return {tier_resource(resource, tier): amount for resource, amount in amounts.items()}


def tier_resource(resource: str, tier: Tier) -> str:
    """Returns the resource of the ledger: batch and mid have a CPU and a memory of their own."""
    return f"{tier.value}-{resource}" if tier is not Tier.PROD and resource in ("cpu", "memory") else resource


class EstimateView(BaseModel):
    """Seconds from now until half, and until nine of ten such claims start. Null: the quota's past does not reach so
    far. The hit rates say how often that was right (0..1; 0.5 and 0.9 are best)."""

    p50_seconds: float | None
    p90_seconds: float | None
    samples: int
    hit_rate_p50: float | None
    hit_rate_p90: float | None
    outcomes: int


class ReclaimView(BaseModel):
    """Why a claim has to end, until when, and for whose claim."""

    reason: ReclaimReason
    since: datetime
    deadline: datetime
    for_quota: str
    for_claim: str


class RunView(BaseModel):
    """What agents report of a claim's pods: how many run now, and how that differs from the claim, since when."""

    pods: int
    first_seen_at: datetime | None
    finding: RunFinding | None
    since: datetime | None


class ClaimView(BaseModel):
    """A claim as it stands. Amounts are milli-cores of a CPU, else whole units. `reason` and `message` are those of the
    last decision about it, `decision_id` its record; while it waits they are of now, with `position` in the queue."""

    id: str
    quota: str
    tree: str
    tier: Tier
    state: ClaimState
    request: dict[str, int]
    admitted: dict[str, int]
    priority: int
    non_preemptible: bool
    workload: str
    grace_seconds: float
    submitted_at: datetime
    admitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    position: int | None
    queue_length: int | None
    reason: str
    message: str
    decision_id: str
    estimate: EstimateView | None
    reclaim: ReclaimView | None
    run: RunView | None = Field(description="Null: no agent has reported a pod of it.")
    dry_run: bool = Field(description="Whether it is only what would be.")

    @classmethod
    def of(cls, standing: ClaimStanding) -> ClaimView:
        kept, place = standing.kept, standing.place
        claim, because = kept.claim, kept.because
        reason, message = reason_and_message(standing)
        return cls(
            id=claim.id,
            quota=claim.quota,
            tree=kept.tree,
            tier=claim.tier,
            state=claim.state,
            request=dict(claim.request),
            admitted=dict(claim.admitted),
            priority=claim.priority,
            non_preemptible=claim.non_preemptible,
            workload=claim.workload,
            grace_seconds=claim.grace_s,
            submitted_at=datetime.fromtimestamp(claim.submitted_s, UTC),
            admitted_at=_moment(claim.admitted_s),
            started_at=_moment(claim.started_s),
            ended_at=_moment(claim.ended_s),
            position=None if place is None else place.position,
            queue_length=None if place is None else place.length,
            reason=reason,
            message=message,
            decision_id="" if because is None else because.decision,
            estimate=_estimate(standing),
            reclaim=_reclaim(claim),
            run=_run(claim),
            dry_run=standing.is_tried,
        )


class ClaimList(BaseModel):
    """The claims of a quota that have not ended: those that hold, then the queue in its order."""

    items: list[ClaimView]


class ReclaimableView(BaseModel):
    """A claim that has to end, or would have to next."""

    claim: str
    quota: str
    amounts: dict[str, int]
    priority: int
    workload: str
    reclaim: ReclaimView | None = Field(description="Null: no lender asks for what it uses yet.")

    @classmethod
    def of(cls, claim: QuotaClaim) -> ReclaimableView:
        return cls(
            claim=claim.id,
            quota=claim.quota,
            amounts=dict(claim.holds),
            priority=claim.priority,
            workload=claim.workload,
            reclaim=_reclaim(claim),
        )


def reason_and_message(standing: ClaimStanding) -> tuple[str, str]:
    """Returns those of the last decision about a claim; while it waits, those of now."""
    because = standing.kept.because
    if standing.place is not None:
        return f"claim_queued_{standing.place.reason.value}", standing.wait
    return ("", "") if because is None else (because.reason, because.message)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _estimate(standing: ClaimStanding) -> EstimateView | None:
    estimate, rate = standing.estimate, standing.hit_rate
    if estimate is None:
        return None
    return EstimateView(
        p50_seconds=estimate.p50_s,
        p90_seconds=estimate.p90_s,
        samples=estimate.samples,
        hit_rate_p50=None if rate is None else rate.p50,
        hit_rate_p90=None if rate is None else rate.p90,
        outcomes=0 if rate is None else rate.outcomes,
    )


def _run(claim: QuotaClaim) -> RunView | None:
    run = claim.run
    if run is None:
        return None
    return RunView(
        pods=run.pods, first_seen_at=_moment(run.first_seen_s), finding=run.finding, since=_moment(run.since_s)
    )


def _reclaim(claim: QuotaClaim) -> ReclaimView | None:
    order = claim.reclaim
    if order is None:
        return None
    return ReclaimView(
        reason=order.reason,
        since=datetime.fromtimestamp(order.since_s, UTC),
        deadline=datetime.fromtimestamp(order.deadline_s, UTC),
        for_quota=order.for_quota,
        for_claim=order.for_claim,
    )
