"""Each commit follows a plan that was made on the ledger as it is: room is given once, within every limit, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.quota.claim_commits import (
    ADMITTED,
    RECLAIMED,
    REFUSED,
    ClaimCommit,
    TreeBooks,
    below,
    claim_commit_of,
    path_of,
    summed,
)
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.fairshare.arbitration_plan import QuotaSnapshot
from slackwater.fairshare.claims import HOLDING, ClaimState, QuotaClaim
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import ROOT, Quota, added
from slackwater.fairshare.waiting_queue import shape_of
from slackwater.quota.settings import QuotaSettings

RESERVED = "claim_admitted_reserved"
_BY_STATE = {
    ClaimState.ADMITTED: ADMITTED,
    ClaimState.REFUSED: REFUSED,
    ClaimState.RECLAIMING: RECLAIMED,
}
"""The records that must go with a new state; a claim that is released or started changes by its client's request."""


class OfQuota(Invariant):
    """Sees every commit of claims, and has the ledger before it."""

    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.books = TreeBooks()

    def on_step(self, step: Step) -> None:
        commit = claim_commit_of(step)
        if commit is not None:
            self.before(commit)
            self.books.apply(commit)
            self.after(commit)

    def before(self, commit: ClaimCommit) -> None:
        """Check with the ledger as it was before the commit. Raises Violation."""

    def after(self, commit: ClaimCommit) -> None:
        """Check with the ledger as it is after the commit. Raises Violation."""


class PlansFollowTheLedger(OfQuota):
    """A commit that changes claims writes its tree in the next generation. Its plan was made on the claims that were
    committed just before it, and each admission, refusal and reclaim has its record in the commit."""

    NAME = "plans follow the ledger"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._generations: dict[str, int] = {}

    def before(self, commit: ClaimCommit) -> None:
        trees = {kept.tree for one in commit.claims.values() if (kept := one.after or one.before) is not None}
        for tree in trees:
            known = self._generations.get(tree, 0)
            if commit.generations.get(tree) != (known, known + 1):
                seen = commit.generations.get(tree, "not written")
                raise Violation(f"claims of tree {tree!r} change in generation {known}; its commit has {seen}")
        self._generations.update({tree: after for tree, (_, after) in commit.generations.items()})
        if commit.snapshot is not None:
            for tree in trees:
                self._check_snapshot(tree, commit)

    def _check_snapshot(self, tree: str, commit: ClaimCommit) -> None:
        """Claims that the commit changes may be in its plan as the request has made them."""
        seen = {claim.id: _short(claim) for claim in commit.snapshot.claims if claim.id not in commit.claims}
        live = {
            claim.id: _short(claim)
            for claim in self.books.of_tree(tree)
            if claim.id not in commit.claims and (claim.state is ClaimState.QUEUED or claim.state in HOLDING)
        }
        if seen != live:
            names = sorted(name for name in {*seen, *live} if seen.get(name) != live.get(name))
            what = f"{names[0]} as {seen.get(names[0])}; committed: {live.get(names[0])}"
            raise Violation(f"the plan of tree {tree!r} was made with {what}; {len(names)} differ")

    def after(self, commit: ClaimCommit) -> None:
        for name, change in commit.claims.items():
            state = None if change.after is None else change.after.claim.state
            was = None if change.before is None else change.before.claim.state
            prefix = None if state is None or state is was else _BY_STATE.get(state)
            if prefix is not None and name not in commit.records_of(prefix):
                reasons = sorted(record["reason"] for record in commit.records)
                raise Violation(f"{name} becomes {state}; the records of its commit: {reasons or 'none'}")


def _short(claim: QuotaClaim) -> tuple[Any, ...]:
    return claim.state.value, claim.quota, tuple(sorted(claim.admitted.items())), claim.reserved


class UsesAreWithinLimits(OfQuota):
    """What is admitted fits into the max of every quota on its path and into what the pool has, by the documents and
    totals of the plan; claims that are never reclaimed stay within the min. The stored use of a quota is the sum of
    its claims."""

    NAME = "uses are within limits"

    def after(self, commit: ClaimCommit) -> None:
        snapshot = commit.snapshot
        parents = {} if snapshot is None else {quota.name: quota.parent for quota in snapshot.quotas}
        for quota, (used, ceiling) in commit.uses.items():
            self._check_use(quota, used, ceiling, parents)
        if snapshot is None:
            return
        for name in commit.records_of(ADMITTED):
            kept = self.books.claims[name]
            self._check_admission(kept.tree, kept.claim, snapshot, parents)

    def _check_use(self, quota: str, used: Mapping[str, int], ceiling: Mapping[str, int], parents: Any) -> None:
        if any(amount > ceiling.get(key, amount) or amount < 0 for key, amount in used.items()):
            raise Violation(f"{quota} uses {used}; allowed: {ceiling}")
        own = {kept.claim.quota for kept in self.books.claims.values()}
        if quota in own or parents:
            quotas = below(parents, quota)
            claims = [kept.claim for kept in self.books.claims.values() if kept.claim.quota in quotas]
            held = summed(claim for claim in claims if claim.state in HOLDING)
            if _positive(held) != _positive(used):
                raise Violation(f"the use of {quota} is stored as {used}; its claims hold {held}")

    def _check_admission(self, tree: str, claim: QuotaClaim, snapshot: Any, parents: Mapping[str, str]) -> None:
        total, pool = snapshot.totals.get(tree, {}), self.books.held(tree)
        for key, amount in claim.admitted.items():
            if amount and pool[key] > total.get(key, 0):
                raise Violation(f"{claim.id} is admitted: {pool[key]} {key} in use; the pool has {total.get(key, 0)}")
        quotas = {quota.name: quota for quota in snapshot.quotas}
        for name in path_of(parents, claim.quota):
            held, most = self.books.held(tree, below(parents, name)), quotas[name].maximum
            for key, amount in claim.admitted.items():
                if amount and held.get(key, 0) > most.get(key, held.get(key, 0)):
                    raise Violation(f"{claim.id} is admitted: {name} uses {held[key]} {key}; its max is {most[key]}")
            if claim.non_preemptible:
                self._check_bound(tree, claim, quotas[name], below(parents, name))

    def _check_bound(self, tree: str, claim: QuotaClaim, quota: Any, names: set[str]) -> None:
        bound = summed(
            one
            for one in self.books.of_tree(tree)
            if one.non_preemptible and one.state in HOLDING and one.quota in names
        )
        for key, amount in claim.admitted.items():
            allowed = quota.minimum.get(key, 0)
            if amount and key in quota.maximum and bound[key] > allowed:
                raise Violation(f"{claim.id} is never reclaimed: {quota.name} has {bound[key]} {key} of such claims; "
                                f"its min is {allowed}")  # fmt: skip


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in amounts.items() if amount}


class QueueOrderIsKept(OfQuota):
    """No claim of a quota is admitted before one of the same shape that goes first; in a strict queue, before none
    that goes first and that the pool has room for at all. A reservation stays with its claim."""

    NAME = "queue order is kept"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        settings = QuotaSettings(**world.plan.settings.get("quota", {}))
        self._aging_s = settings.arbitration().aging_s

    def after(self, commit: ClaimCommit) -> None:
        for name, record in commit.records_of(ADMITTED).items():
            if record["reason"] == RESERVED:
                continue
            kept = self.books.claims[name]
            for other in self._passed(kept.tree, kept.claim, commit):
                raise Violation(
                    f"{name} of {kept.claim.quota} is admitted before {other.id}, which was submitted at "
                    f"{other.submitted_s:.3f} with priority {other.priority}; itself: {kept.claim.submitted_s:.3f}, "
                    f"{kept.claim.priority}"
                )

    def _rank(self, claim: QuotaClaim) -> tuple[float, float, str]:
        """Decision 0107, again: the product's own function may be wrong."""
        first = -float(claim.priority)
        if self._aging_s is not None:
            first = claim.submitted_s - claim.priority * self._aging_s
        return first, claim.submitted_s, claim.id

    def _passed(self, tree: str, claim: QuotaClaim, commit: ClaimCommit) -> Iterator[QuotaClaim]:
        own, snapshot = self._rank(claim), commit.snapshot
        policies = {} if snapshot is None else snapshot.queue_policies
        total = {} if snapshot is None else snapshot.totals.get(tree, {})
        is_strict = policies.get(claim.quota) is QueuePolicy.STRICT_FIFO
        kept = {} if snapshot is None else _kept_by_others(snapshot, claim.quota)
        for other in self.books.queued(tree, claim.quota):
            if self._rank(other) < own:
                least = other.request if other.partial_minimum is None else other.partial_minimum
                fits_once = all(amount + kept.get(key, 0) <= total.get(key, 0) for key, amount in least.items())
                if shape_of(other) == shape_of(claim) or (is_strict and fits_once):
                    yield other


def _kept_by_others(snapshot: QuotaSnapshot, quota: str) -> Mapping[str, int]:
    """The mins that quotas of any level do not lend, but those of the claim's own path: it may be that the pool has no
    room beside them, and a claim that waits for a larger pool blocks none."""
    own = path_of({each.name: each.parent for each in snapshot.quotas}, quota)

    def below(parent: str) -> Mapping[str, int]:
        return added(*(of(each) for each in snapshot.quotas if each.parent == parent))

    def of(each: Quota) -> Mapping[str, int]:
        found = below(each.name)
        if each.lends or each.name in own:
            return found
        return {key: max(found.get(key, 0), each.minimum.get(key, 0)) for key in {*found, *each.minimum}}

    return below(ROOT)


class ReclaimsTakeWhatIsNeeded(OfQuota):
    """No claim that is never reclaimed is asked to end. Of the victims for one claim that are all of one quota, none
    can be spared: without it the others are too little for what was needed."""

    NAME = "reclaims take what is needed"

    def after(self, commit: ClaimCommit) -> None:
        by_claim: dict[str, list[tuple[QuotaClaim, Mapping[str, Any]]]] = {}
        for name, record in commit.records_of(RECLAIMED).items():
            victim = self.books.claims[name].claim
            if victim.non_preemptible:
                raise Violation(f"{name} is never reclaimed, and is asked to end")
            if victim.reclaim is not None and victim.reclaim.for_claim:
                by_claim.setdefault(victim.reclaim.for_claim, []).append((victim, record))
        for wanted, victims in by_claim.items():
            if len({victim.quota for victim, _ in victims}) == 1:
                self._check_needed(wanted, victims)

    def _check_needed(self, wanted: str, victims: list[tuple[QuotaClaim, Mapping[str, Any]]]) -> None:
        """A record says what was needed in one resource, which decides where that is all that is asked for or given."""
        needed = {_resource(record): int(record["terms"][0]["value"]) for _, record in victims}
        kept = self.books.claims.get(wanted)
        asks_for_more = kept is None or not kept.claim.request.keys() <= needed.keys()
        if asks_for_more and any(len(victim.admitted) > 1 for victim, _ in victims):
            return
        for spared, _ in victims:
            rest = summed(victim for victim, _ in victims if victim.id != spared.id)
            if all(rest.get(key, 0) >= amount for key, amount in needed.items()):
                raise Violation(
                    f"{spared.id} is asked to end for {wanted}, which needs {needed}; the others give {rest}"
                )


def _resource(record: Mapping[str, Any]) -> str:
    """The resource of the first term of a reclaim: `batch-cpu by claimer-0-3`."""
    return str(record["terms"][0]["note"]).partition(" by ")[0]


INVARIANTS = (PlansFollowTheLedger, UsesAreWithinLimits, QueueOrderIsKept, ReclaimsTakeWhatIsNeeded)
