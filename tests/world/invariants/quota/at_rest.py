"""At rest every replica knows the same quotas and pools, what fits is admitted, what is owed is given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.invariants.quota.claim_commits import TreeBooks, claim_commit_of, path_of
from tests.world.plan import QUOTA, replicas
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import ReclaimRequested
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.fairshare.arbitration import arbitrate
from slackwater.fairshare.arbitration_plan import QuotaSnapshot
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ENDED, HOLDING, ClaimState, QuotaClaim
from slackwater.fairshare.debts import QuotaAccounts, accounts
from slackwater.fairshare.queue_order import in_order
from slackwater.fairshare.tree import BrokenTree, children_of, top_down
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.settings import QuotaSettings

DUE_SECONDS = 20.0
"""What could have been decided so long ago is late: several rounds, a grace and a look of the client at its claim."""
ASKED_AGAIN_SECONDS = 50.0
"""A refusal to evict that is older says nothing: the tree asks again after half a minute."""
ARRIVED_SECONDS = 5.0
"""Every replica has received what was published so long ago."""
_OF_POOLS = tuple(
    f"sw.v1.{payload.TYPE}."
    for payload in (NodeDescribed, NodeDeleted, NodeLivenessChanged, NodeSchedulingChanged, ResourcesOffered)
)


class QuotasAreSettledAtRest(Invariant):
    """At rest all replicas follow the stored quotas, which form trees, and know the same pools. No claim waits that
    could be admitted or have others reclaimed for it DUE_SECONDS ago, none whose quota may take it within its min
    waits at all, and no claim is asked to end without doing so. At each level lent = borrowed. A claim that has started
    and whose eviction the Autonomies of its pools have just refused keeps what it holds, and others wait for that."""

    NAME = "quotas are settled at rest"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = TreeBooks()
        self._changed_at = 0.0
        """When an event about a pool or a commit about claims came last."""
        self._pools_at = 0.0
        self._wanted: dict[str, frozenset[str]] = {}
        """By request, the claims whose eviction is asked for."""
        self._refused: dict[str, tuple[float, frozenset[str]]] = {}
        """By tree, when claims were last refused their eviction, and which."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STORED:
            if step.subject.startswith(_OF_POOLS) and step.process != "fleet":
                self._changed_at = self._pools_at = step.at
            self._note_grant(step)
        elif (commit := claim_commit_of(step)) is not None:
            self._books.apply(commit)
            self._changed_at = step.at if commit.claims else self._changed_at

    def _note_grant(self, step: Step) -> None:
        if (request := payload_of(step, ReclaimRequested)) is not None:
            self._wanted[request.id] = frozenset(each.claim for each in request.wanted)
        elif (answer := payload_of(step, ReclaimAnswered)) is not None:
            wanted = self._wanted.pop(answer.id, frozenset())
            self._refused[answer.tree] = step.at, wanted.difference(answer.granted) if answer.because else frozenset()

    def _refused_in(self, tree: str) -> frozenset[str]:
        at, claims = self._refused.get(tree_key(tree), (0.0, frozenset[str]()))
        return claims if self.world.loop.time() - at <= ASKED_AGAIN_SECONDS else frozenset()

    def at_rest(self) -> None:
        if not self.world.plan.claimers or not has_settled(self.world.plan):
            return
        services = {name: self.world.places[name].service for name in replicas(self.world.plan, QUOTA)}
        has_arrived = self.world.loop.time() - self._pools_at >= ARRIVED_SECONDS
        known = {name: _known(service, with_totals=has_arrived) for name, service in services.items()}
        first = next(iter(known))
        for name, (quotas, totals) in known.items():
            if (quotas, totals) != known[first]:
                raise Violation(f"{name} knows {quotas} and {totals}; {first}: {known[first]}")
        trees = next(iter(services.values())).trees
        for tree in trees.names():
            self._check_tree(tree, trees)
        homeless = [
            kept.claim
            for kept in self._books.claims.values()
            if kept.claim.state not in ENDED and kept.claim.quota not in trees.quotas()
        ]
        if homeless:
            raise Violation(f"{homeless[0].id} is {homeless[0].state} in {homeless[0].quota}, which does not exist")

    def _check_tree(self, tree: str, trees: Any) -> None:
        quotas = [declared.quota for declared in trees.quotas().values() if declared.quota.tree == tree]
        try:
            top_down(quotas)
        except BrokenTree as error:
            raise Violation(f"the stored quotas of {tree!r} are no tree: {error}") from None
        claims = [claim for claim in self._books.of_tree(tree) if claim.state not in ENDED]
        total = trees.totals(tree).total
        self._check_accounts(dict(accounts(trees.layout(tree), ClaimIndex(claims), total)), quotas)
        if self.world.loop.time() - self._changed_at >= DUE_SECONDS:
            self._check_due(tree, trees, quotas, claims, total)

    @staticmethod
    def _check_accounts(found: Mapping[str, QuotaAccounts], quotas: Any) -> None:
        for parent, children in children_of(quotas).items():
            resources = {key for child in children for key in (*found[child.name].lent, *found[child.name].borrowed)}
            for key in resources:
                lent = sum(found[child.name].lent.get(key, 0) for child in children)
                borrowed = sum(found[child.name].borrowed.get(key, 0) for child in children)
                if lent != borrowed:
                    raise Violation(f"below {parent} {lent} {key} is lent and {borrowed} borrowed")

    def _check_due(
        self, tree: str, trees: Any, quotas: Any, claims: list[QuotaClaim], total: Mapping[str, int]
    ) -> None:
        settings = QuotaSettings(**self.world.plan.settings.get(QUOTA, {})).arbitration()
        now_s = self.world.wall_seconds() - DUE_SECONDS
        since = dict.fromkeys((quota.name for quota in quotas), now_s)
        refused = self._refused_in(tree)
        granted = {claim.id for claim in claims} - refused if refused else None
        snapshot = QuotaSnapshot(
            quotas, {tree: total}, claims, settings, trees.policies(tree), since, granted=granted, refused=refused
        )
        plan = arbitrate(snapshot, now_s)
        if plan.admissions:
            raise Violation(f"{plan.admissions[0].claim} waits and fits; {len(plan.admissions)} in all")
        asked = sorted(claim.id for claim in claims if claim.state is ClaimState.RECLAIMING)
        if asked:
            raise Violation(f"{asked[0]} was asked to end long ago and still holds; {len(asked)} in all")
        if plan.reclaims:
            raise Violation(f"{plan.reclaims[0].victim} is due to be reclaimed: {plan.reclaims[0].reason}")
        held = {reclaim.for_claim for reclaim in plan.ungranted}
        self._check_mins({quota.name: quota for quota in quotas}, claims, total, held)

    def _check_mins(
        self, quotas: Mapping[str, Any], claims: list[QuotaClaim], total: Mapping[str, int], held: Collection[str]
    ) -> None:
        """Counted by hand: where the mins of the first level fit into the pool, each is worth what it says."""
        parents = {name: quota.parent for name, quota in quotas.items()}
        heads = {queue[0].id for queue in _queues(claims, self._aging_s()).values()}
        roots = [quota for quota in quotas.values() if quota.parent not in quotas]
        for claim in claims:
            if claim.id not in heads or claim.id in held or claim.non_preemptible or claim.quota not in quotas:
                continue
            if all(self._is_promised(key, amount, claim, quotas, parents, roots, claims, total)
                   for key, amount in claim.request.items()):  # fmt: skip
                raise Violation(f"{claim.id} waits, and {claim.quota} uses less than its min")

    def _aging_s(self) -> float | None:
        return QuotaSettings(**self.world.plan.settings.get(QUOTA, {})).arbitration().aging_s

    @staticmethod
    def _is_promised(
        key: str,
        amount: int,
        claim: QuotaClaim,
        quotas: Mapping[str, Any],
        parents: Mapping[str, str],
        roots: list[Any],
        claims: list[QuotaClaim],
        total: Mapping[str, int],
    ) -> bool:
        if sum(quota.minimum.get(key, 0) for quota in roots) > total.get(key, 0):
            return False
        for name in path_of(parents, claim.quota):
            used = sum(
                one.admitted.get(key, 0)
                for one in claims
                if one.state in HOLDING and name in path_of(parents, one.quota)
            )
            if used + amount > quotas[name].minimum.get(key, 0):
                return False
        return True


def _queues(claims: list[QuotaClaim], aging_s: float | None) -> dict[str, list[QuotaClaim]]:
    """The queued claims of each quota, the next one first."""
    queues: dict[str, list[QuotaClaim]] = {}
    for claim in in_order(claims, aging_s):
        if claim.state is ClaimState.QUEUED:
            queues.setdefault(claim.quota, []).append(claim)
    return queues


def _known(service: Any, *, with_totals: bool) -> tuple[Any, Any]:
    """What a replica follows: documents by generation, and the pools."""
    trees = service.trees
    quotas = {name: replace(declared.quota, own_request={}) for name, declared in trees.quotas().items()}
    return quotas, {tree: dict(trees.totals(tree).total) for tree in trees.names()} if with_totals else {}


INVARIANTS = (QuotasAreSettledAtRest,)
