"""What decisions and views of one tree are made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from slackwater.fairshare.arbitration import PreparedSnapshot, apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationPlan, ArbitrationSettings, QueuePlace, WaitReason
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.records import record
from slackwater.quota.domain.claim_decisions import ClaimDecision, decisions_of
from slackwater.quota.domain.ledger_records import ClaimReasoning, KeptClaim
from slackwater.quota.domain.pool_totals import TreeTotals
from slackwater.quota.domain.tree_ledger import TreeLedger, uses


@record(frozen=True, slots=True)
class TreeInputs:
    """The claims of a tree, what its quotas and its pool are, and the time."""

    tree: str
    current: TreeLedger
    layout: TreeLayout
    totals: TreeTotals
    policies: Mapping[str, QueuePolicy]
    settings: ArbitrationSettings
    now: datetime

    @property
    def now_s(self) -> float:
        return self.now.timestamp()

    def snapshot(self, index: ClaimIndex) -> PreparedSnapshot:
        """Returns what an arbitration of these claims reads."""
        stored = self.current.stored
        return PreparedSnapshot(
            trees={self.tree: self.layout},
            totals={self.tree: self.totals.total},
            index=index,
            settings=self.settings,
            queue_policies=self.policies,
            over_since_s=stored.over_since_s,
            evictions_allowed={},
            granted=stored.grant.usable(self.now_s),
            refused=stored.grant.refused,
            reserved={self.tree: self.totals.reserved} if self.totals.reserved else {},
        )

    def explained(self, plan: ArbitrationPlan, index: ClaimIndex, named: Collection[str]) -> Sequence[ClaimDecision]:
        """Returns the decisions of a plan; of claims that wait those `named`."""
        if not (plan.admissions or plan.refusals or plan.reclaims or named):
            return ()
        runtime = self.layout.runtimes(index.requested, self.totals.total)
        return list(decisions_of(plan, runtime, uses(self.layout.quotas, index.used), named))

    def places(self) -> dict[str, QueuePlace]:
        """Returns the places of an arbitration at this moment. Admissions are to come from the owner of the tree."""
        plan = arbitrate(self.snapshot(self.current.index), self.now_s)
        places = {place.claim: place for place in plan.places}
        for admission in plan.admissions:
            places[admission.claim] = QueuePlace(
                admission.claim, admission.quota, 1, 1, WaitReason.KEPT, (), reserved=True, ahead={}
            )
        return places

    def tried(self, claim: QuotaClaim) -> KeptClaim:
        """Returns a claim as an arbitration at this moment would leave it."""
        index = ClaimIndex([*self.current.claims.values(), claim])
        plan = arbitrate(self.snapshot(index), self.now_s)
        after = apply_plan(plan, index.by_id, self.now_s).get(claim.id, claim)
        for decision in self.explained(plan, index, {claim.id}):
            if decision.claim == claim.id:
                return KeptClaim(self.tree, after, ClaimReasoning("", decision.reason.value, decision.message))
        return KeptClaim(self.tree, after)

    def queued(self, places: Mapping[str, QueuePlace]) -> Sequence[KeptClaim]:
        """Returns the claims that wait, those with the best places first."""
        waiting = [kept for kept in self.current.kept.values() if kept.claim.state is ClaimState.QUEUED]
        last = len(waiting) + 1  # of a claim that the owner of the tree is about to refuse
        position = {name: place.position for name, place in places.items()}
        return sorted(waiting, key=lambda kept: (position.get(kept.claim.id, last), kept.claim.quota))
