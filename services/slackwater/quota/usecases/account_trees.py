"""Publishes the ledger of each owned tree for display, when it has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from slackwater.events.envelope import Event, event_of
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted, ReclaimedClaim, WaitingClaim
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.debts import QuotaAccounts
from slackwater.fairshare.tree import Amounts, Quota
from slackwater.model.bounds import MOST_COUNT, MOST_SECONDS
from slackwater.model.errors import Conflict
from slackwater.model.time import Clock
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.usecases.claim_records import SERVICE
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.tree_view import ClaimStanding, TreeView
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
MOST_QUOTAS, MOST_RESOURCES, MOST_WAITING, MOST_RECLAIMS = 100, 10, 50, 20
"""Of one event: a message of 1 MiB holds them in any case."""
UNCHANGED_SECONDS: Final = 60.0
"""A tree that does not change is published this often, so that a reader knows that it is current."""

Publish = Callable[[Event[Any]], Awaitable[int]]


class AccountTrees:
    """The ledgers of the trees that this replica owns. What is lost on the way comes again with the next change."""

    def __init__(
        self, claims: ManageClaims, owned: Callable[[], Collection[str]], publish: Publish, clock: Clock
    ) -> None:
        self._claims = claims
        self._owned = owned
        self._publish = publish
        self._clock = clock
        self._published: dict[str, QuotaAccounted] = {}

    async def __call__(self) -> None:
        """Publish what is new; a tree that has lost its last quota is published once more, empty. Raises
        Unavailable."""
        for tree in sorted({*self._owned(), *(name for name, last in self._published.items() if last.quotas)}):
            try:
                await self._account(tree)
            except Conflict as error:
                log.warning("a tree is accounted later", tree=tree_key(tree), reason=error.message)

    async def _account(self, tree: str) -> None:
        arbiter, now = self._claims.of(tree), self._clock.now()
        view, waiting = await arbiter.view(), await arbiter.waiting(MOST_WAITING)
        event, last = accounted(view, waiting, now), self._published.get(tree)
        if last is not None:
            is_same = event == last.model_copy(update={"accounted_at": event.accounted_at})
            if is_same and (now - last.accounted_at).total_seconds() < UNCHANGED_SECONDS:
                return
        await self._publish(event_of(event, source=SERVICE, time=now))
        self._published[tree] = event


def accounted(view: TreeView, waiting: Sequence[ClaimStanding], now: datetime) -> QuotaAccounted:
    """Returns the event of a tree; `waiting` are the first claims of its queues."""
    claims = [stored.claim for stored in view.claims]
    queued = sum(claim.state is ClaimState.QUEUED for claim in claims)
    figures = _figures(view, claims)
    return QuotaAccounted(
        tree=tree_key(view.tree),
        generation=view.generation,
        total=_sums(view.totals.total),
        nodes=view.totals.nodes,
        unschedulable_nodes=view.totals.unschedulable,
        quotas=tuple(figures[:MOST_QUOTAS]),
        quotas_beyond=max(0, len(figures) - MOST_QUOTAS),
        queue=tuple(_waiting(standing) for standing in waiting),
        queue_beyond=max(0, queued - len(waiting)),
        reclaiming=tuple(_reclaimed(claim) for claim in view.reclaiming()[:MOST_RECLAIMS]),
        candidates=tuple(_reclaimed(claim) for claim in view.candidates()[:MOST_RECLAIMS]),
        accounted_at=now,
    )


def _figures(view: TreeView, claims: Sequence[QuotaClaim]) -> list[AccountedQuota]:
    """In the order of the tree: a quota, then those below it."""
    own: dict[tuple[str, bool], int] = {}
    for claim in claims:
        key = (claim.quota, claim.state is ClaimState.QUEUED)
        own[key] = own.get(key, 0) + 1
    children: dict[str, list[Quota]] = {}
    for quota in view.quotas.values():
        children.setdefault(quota.parent if quota.parent in view.quotas else "", []).append(quota)
    figures: list[AccountedQuota] = []
    left = [(quota, 1) for quota in reversed(children.get("", []))]
    while left:
        quota, depth = left.pop()
        figures.append(_quota(quota, depth, view.accounts[quota.name], own))
        left += [(child, depth + 1) for child in reversed(children.get(quota.name, []))]
    return figures


def _quota(quota: Quota, depth: int, account: QuotaAccounts, own: Mapping[tuple[str, bool], int]) -> AccountedQuota:
    return AccountedQuota(
        name=quota.name,
        parent=quota.parent,
        depth=depth,
        min=_sums(quota.minimum),
        max=_sums(quota.maximum),
        used=_sums(account.used),
        requested=_sums(account.requested),
        entitled=_sums(account.entitled),
        runtime=_sums(account.runtime),
        fair_share=_sums(account.fair_share),
        borrowed=_sums(account.borrowed),
        lent=_sums(account.lent),
        owed=_sums(account.owed),
        holding=own.get((quota.name, False), 0),
        queued=own.get((quota.name, True), 0),
    )


def _waiting(standing: ClaimStanding) -> WaitingClaim:
    claim, place, estimate = standing.kept.claim, standing.place, standing.estimate
    rate = standing.hit_rate
    return WaitingClaim(
        claim=claim.id,
        quota=claim.quota,
        position=0 if place is None else place.position,
        queue_length=0 if place is None else place.length,
        request=_sums(claim.request),
        priority=claim.priority,
        reason="" if place is None else place.reason.value,
        message=standing.wait,
        submitted_at=datetime.fromtimestamp(claim.submitted_s, UTC),
        p50_seconds=None if estimate is None else _seconds(estimate.p50_s),
        p90_seconds=None if estimate is None else _seconds(estimate.p90_s),
        hit_rate_p90=None if rate is None else rate.p90,
        outcomes=0 if rate is None else rate.outcomes,
    )


def _reclaimed(claim: QuotaClaim) -> ReclaimedClaim:
    order = claim.reclaim
    return ReclaimedClaim(
        claim=claim.id,
        quota=claim.quota,
        amounts=_sums(claim.holds),
        priority=claim.priority,
        workload=claim.workload,
        reason="" if order is None else order.reason.value,
        for_quota="" if order is None else order.for_quota,
        for_claim="" if order is None else order.for_claim,
        deadline=None if order is None else datetime.fromtimestamp(order.deadline_s, UTC),
    )


def _sums(amounts: Amounts) -> dict[str, int]:
    return {key: min(max(amount, 0), MOST_COUNT) for key, amount in sorted(amounts.items())[:MOST_RESOURCES]}


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else min(seconds, MOST_SECONDS)
