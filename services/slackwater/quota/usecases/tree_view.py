"""A tree and its claims, as they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from slackwater.fairshare.arbitration_plan import ArbitrationSettings, QueuePlace, WaitReason, may_borrow_s
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.debts import QuotaAccounts
from slackwater.fairshare.start_estimate import EstimateHitRate, StartEstimate
from slackwater.fairshare.tree import Quota, QuotaLedger, added
from slackwater.model.records import record
from slackwater.quota.domain.claim_decisions import wait_text
from slackwater.quota.domain.ledger_records import KeptClaim, tree_key
from slackwater.quota.domain.past_trees import PastTree
from slackwater.quota.domain.pool_totals import TreeTotals
from slackwater.quota.domain.reclaim_candidates import reclaim_candidates
from slackwater.quota.domain.reclaim_grant import ReclaimGrant
from slackwater.quota.domain.tree_figures import tree_figures
from slackwater.quota.metrics import QuotaMetrics


@record(frozen=True, slots=True)
class TreeView:
    """A tree at one moment: what is declared, claimed and due, and how the runtime came about."""

    tree: str
    generation: int
    totals: TreeTotals
    quotas: Mapping[str, Quota]
    """Parents before their children."""
    ledger: QuotaLedger
    accounts: dict[str, QuotaAccounts]
    claims: Sequence[KeptClaim]
    places: dict[str, QueuePlace]
    at_s: float | None = None
    """Of a past state, without claims: since when it was so."""

    def candidates(self) -> Sequence[QuotaClaim]:
        """Returns the claims that would be reclaimed next, in their order."""
        return reclaim_candidates(self.quotas.values(), self._live(), self.accounts, self.totals.total)

    def reclaiming(self) -> Sequence[QuotaClaim]:
        """Returns the claims that have to end, in the order of their deadlines."""
        by_deadline = [
            (claim.reclaim.deadline_s, claim.id, claim) for claim in self._live() if claim.reclaim is not None
        ]
        return [claim for _, _, claim in sorted(by_deadline, key=lambda entry: entry[:2])]

    def _live(self) -> list[QuotaClaim]:
        return [stored.claim for stored in self.claims]

    def past(self, now_s: float) -> PastTree:
        """Returns what is remembered of it."""
        requested, used = dict[str, dict[str, int]](), dict[str, dict[str, int]]()
        for stored in self.claims:
            for sums, amounts in ((requested, stored.claim.wants), (used, stored.claim.holds)):
                sums[stored.claim.quota] = added(sums.get(stored.claim.quota, {}), amounts)
        return PastTree(self.tree, now_s, self.generation, self.totals, list(self.quotas.values()), requested, used)


@record(frozen=True, slots=True)
class ClaimStanding:
    """A claim, and while it waits its place and when it may start."""

    kept: KeptClaim
    place: QueuePlace | None = None
    estimate: StartEstimate | None = None
    hit_rate: EstimateHitRate | None = None
    note: str = ""
    """What it waits for beside the reason of its place, and until when."""
    is_tried: bool = False
    """Of a dry run: nothing was changed."""

    @property
    def wait(self) -> str:
        """Why it waits, with the first figures; empty for one that does not."""
        if self.place is None:
            return ""
        return f"{wait_text(self.place)}{f': {self.note}' if self.note else ''}"


def wait_note(claim: QuotaClaim, place: QueuePlace, grant: ReclaimGrant, settings: ArbitrationSettings) -> str:
    """Returns what is known of a wait beyond the figures of its place."""
    if place.reason in (WaitReason.BUDGET, WaitReason.GRANT):
        return grant.text()
    if place.reason is WaitReason.BACKOFF:
        until = datetime.fromtimestamp(may_borrow_s(claim, settings), UTC)
        times = "once" if claim.reclaims == 1 else f"{claim.reclaims} times"
        return f"reclaimed {times} lately, borrows again from {until:%H:%M:%SZ}"
    return ""


def show_figures(view: TreeView, meter: QuotaMetrics, now: datetime) -> None:
    """Put the figures of a tree on the meter."""
    claims = {stored.claim.id: stored.claim for stored in view.claims}
    meter.show(tree_key(view.tree), tree_figures(view.accounts, claims, now.timestamp()), now.timestamp())
