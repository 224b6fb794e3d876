"""/v1/quotas and /v1/claims: claims, trees, and the sums behind them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from slackwater.fairshare.tree import ROOT
from slackwater.fairshare.validation import SYSTEM
from slackwater.model.time import Clock
from slackwater.quota.edge.claim_models import ClaimList, ClaimView, WantedClaim
from slackwater.quota.edge.tree_models import QuotaReclaims, QuotaTree, QuotaWhy
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.runtime.moments import ALLOWED, moment
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes

QuotaName = Annotated[str, Path(description="The name of an ElasticQuota.")]
RootName = Annotated[str, Path(description="The name of an ElasticQuota; `root` for a whole tree.")]
ClaimName = Annotated[str, Path(description="The id of the claim.")]
At = Annotated[str | None, Query(description=f"The state at this time (default now): {ALLOWED}.", examples=["5m"])]
TreeName = Annotated[
    str, Query(description="With `root`, `system`: which tree; empty: that of pools without a profile.")
]


def quota_router(claims: ManageClaims, clock: Clock) -> Routes:
    """Returns the routes of claims and trees."""
    router = Routes(prefix="/v1", tags=["quota"])
    _add_claims(router, claims)

    @router.get("/quotas/{quota}/tree", role=Role.VIEWER, operation_id="get_quota_tree")
    async def get_tree(quota: RootName, tree: TreeName = "") -> QuotaTree:
        """What each quota has, uses, lends and owes, and what runs without a claim."""
        view = await claims.view_of(quota, tree)
        return QuotaTree.of(view, quota, (await claims.observed(view.tree)).unclaimed)

    @router.get("/quotas/{quota}/why", role=Role.VIEWER, operation_id="get_quota_why")
    async def get_why(quota: QuotaName, at: At = None, tree: TreeName = "") -> QuotaWhy:
        """The sum behind the runtime of a quota, now or at a past moment; of `system` what comes off the total."""
        when = None if at is None else moment(at, clock.now(), "at")
        if quota == SYSTEM:
            whole = await claims.view_of(ROOT, tree) if when is None else await claims.whole_at(tree, when)
            return QuotaWhy.of_system(whole)
        view = await claims.view_of(quota) if when is None else await claims.view_at(quota, when)
        return QuotaWhy.of(view, quota)

    @router.get("/quotas/{quota}/reclaims", role=Role.VIEWER, operation_id="get_quota_reclaims")
    async def get_reclaims(quota: RootName, tree: TreeName = "") -> QuotaReclaims:
        """The claims of a quota and those below it that have to end, and those that would have to next."""
        return QuotaReclaims.of(await claims.view_of(quota, tree), quota)

    @router.get("/claims/{claim}", role=Role.VIEWER, operation_id="find_claim")
    async def find_claim(claim: ClaimName) -> ClaimView:
        """One claim, whatever its quota."""
        return ClaimView.of(await claims.find(claim))

    return router


def _add_claims(router: Routes, claims: ManageClaims) -> None:
    @router.post(
        "/quotas/{quota}/claims",
        role=Role.OPERATOR,
        operation_id="submit_claim",
        status_code=201,
        responses={200: {"model": ClaimView, "description": "It was there already, or is only tried."}},
    )
    async def submit(quota: QuotaName, wanted: WantedClaim, response: Response, dry_run: DryRun = False) -> ClaimView:
        """Ask for resources: admitted, queued or refused. The same claim again changes nothing."""
        standing, is_new = await claims.submit(wanted.claim(quota), dry_run=dry_run)
        response.status_code = 201 if is_new else 200
        return ClaimView.of(standing)

    @router.get("/quotas/{quota}/claims", role=Role.VIEWER, operation_id="list_claims")
    async def list_claims(quota: QuotaName) -> ClaimList:
        """The claims of a quota that have not ended."""
        return ClaimList(items=[ClaimView.of(standing) for standing in await claims.claims(quota)])

    @router.get("/quotas/{quota}/claims/{claim}", role=Role.VIEWER, operation_id="get_claim")
    async def get_claim(quota: QuotaName, claim: ClaimName) -> ClaimView:
        """One claim, with its place in the queue."""
        return ClaimView.of(await claims.claim(quota, claim))

    @router.post("/quotas/{quota}/claims/{claim}/start", role=Role.OPERATOR, operation_id="start_claim")
    async def start(quota: QuotaName, claim: ClaimName, dry_run: DryRun = False) -> ClaimView:
        """Note that the workload of an admitted claim runs."""
        return ClaimView.of(await claims.start(quota, claim, dry_run=dry_run))

    @router.delete("/quotas/{quota}/claims/{claim}", role=Role.OPERATOR, operation_id="release_claim")
    async def release(quota: QuotaName, claim: ClaimName, dry_run: DryRun = False) -> ClaimView:
        """Release what a claim holds, or withdraw it from the queue."""
        return ClaimView.of(await claims.release(quota, claim, dry_run=dry_run))
