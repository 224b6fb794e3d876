"""Claims of all trees: submit, start, release and show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from slackwater.fairshare.arbitration_plan import ArbitrationSettings
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.documents import DeclaredQuota
from slackwater.fairshare.tree import ROOT
from slackwater.model.errors import Conflict, NotFound, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.quota.domain.claim_requests import INTERRUPTED, ClaimRequest, Release, StartNotice, Submission
from slackwater.quota.domain.claim_runs import ObservedClaims, observe_claims
from slackwater.quota.domain.ledger_records import KeptClaim, tree_key
from slackwater.quota.domain.past_trees import PastTree
from slackwater.quota.domain.reclaim_grant import ReclaimGrant
from slackwater.quota.domain.runtime_preview import RuntimeChange, runtime_changes
from slackwater.quota.metrics import QuotaMetrics
from slackwater.quota.ports import LedgerStore
from slackwater.quota.usecases.arbitrate_tree import ArbitrateTree
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.quota.usecases.release_history import ReleaseHistory
from slackwater.quota.usecases.tree_view import ClaimStanding, TreeView
from slackwater.resources.names import CLUSTER
from slackwater.store.port import UnitOfWork


class ManageClaims:
    """One ArbitrateTree per tree, made when it is first needed."""

    def __init__(
        self,
        store: LedgerStore,
        trees: QuotaTrees,
        history: ReleaseHistory,
        clock: Clock,
        meter: QuotaMetrics,
        settings: ArbitrationSettings,
    ) -> None:
        self._store = store
        self._trees = trees
        self._history = history
        self._clock = clock
        self._meter = meter
        self._settings = settings
        self._arbiters: dict[str, ArbitrateTree] = {}

    def of(self, tree: str) -> ArbitrateTree:
        """Returns the arbitration of a tree."""
        if tree not in self._arbiters:
            self._arbiters[tree] = ArbitrateTree(
                tree, self._store, self._trees, self._history, self._clock, self._meter, self._settings
            )
        return self._arbiters[tree]

    async def submit(self, claim: QuotaClaim, *, dry_run: bool = False) -> tuple[ClaimStanding, bool]:
        """Returns the claim, and whether it is new. Raises NotFound for the quota, Conflict, Unavailable."""
        declared = await self._trees.find(claim.quota)
        if declared.non_preemptible and not claim.non_preemptible:
            claim = replace(claim, non_preemptible=True)
        return await self._carry_out(Submission(claim), dry_run=dry_run)

    async def submit_many(
        self, claims: Sequence[QuotaClaim], *, dry_run: bool = False
    ) -> Sequence[ClaimStanding | SlackwaterError]:
        """Returns each claim, or the error of its own that kept it out: claims of one tree are decided about together,
        in a dry run each alone. Raises Conflict, Unavailable where none of a tree was carried out, or that is not
        known."""
        if dry_run:
            return [await self._tried(claim) for claim in claims]
        answers: dict[int, ClaimStanding | SlackwaterError] = {}
        by_tree: dict[str, dict[int, Submission]] = {}
        for place, claim in enumerate(claims):
            try:
                declared = await self._trees.find(claim.quota)
            except NotFound as error:
                answers[place] = error
                continue
            bound = claim.non_preemptible or declared.non_preemptible
            submission = Submission(claim if bound is claim.non_preemptible else replace(claim, non_preemptible=True))
            by_tree.setdefault(declared.quota.tree, {})[place] = submission
        for tree, submissions in by_tree.items():
            arbiter = self.of(tree)
            for place, done in zip(submissions, await arbiter.note(list(submissions.values())), strict=True):
                if done.result is not None:
                    answers[place] = arbiter.standing(done.result)
                elif isinstance(done.error, Conflict | NotFound):
                    answers[place] = done.error
                else:
                    raise done.error or Unavailable(INTERRUPTED)
        return [answers[place] for place in range(len(claims))]

    async def _tried(self, claim: QuotaClaim) -> ClaimStanding | SlackwaterError:
        try:
            return (await self.submit(claim, dry_run=True))[0]
        except (Conflict, NotFound) as error:
            return error

    async def start(self, quota: str, claim: str, *, dry_run: bool = False) -> ClaimStanding:
        """Note that the workload runs. Raises NotFound, Conflict, Unavailable."""
        return (await self._carry_out(StartNotice(claim, quota), dry_run=dry_run))[0]

    async def release(self, quota: str, claim: str, *, dry_run: bool = False) -> ClaimStanding:
        """End a claim, in whatever state it is. Raises NotFound, Conflict, Unavailable."""
        return (await self._carry_out(Release(claim, quota), dry_run=dry_run))[0]

    async def claim(self, quota: str, claim: str) -> ClaimStanding:
        """Returns one claim. Raises NotFound, Unavailable."""
        standing = await self.of(await self._tree_of(quota, claim)).claim(claim)
        if standing is None or standing.kept.claim.quota != quota:
            raise NotFound(f"quota {quota} has no claim {claim}", code="claim_not_found")
        return standing

    async def find(self, claim: str) -> ClaimStanding:
        """Returns a claim of whatever quota. Raises NotFound, Unavailable."""
        async with self._store.unit_of_work() as unit:
            stored = (await unit.find([claim])).get(claim)
        standing = None if stored is None else await self.of(stored.tree).claim(claim)
        if standing is None:
            raise NotFound(f"there is no claim {claim}, or it ended long ago", code="claim_not_found")
        return standing

    async def claims(self, quota: str) -> Sequence[ClaimStanding]:
        """Returns the claims of a quota that have not ended: those that hold, then the queue. Raises NotFound,
        Unavailable."""
        view = await self.view_of(quota)
        standings = [
            ClaimStanding(stored, view.places.get(stored.claim.id))
            for stored in view.claims
            if stored.claim.quota == quota
        ]
        return sorted(standings, key=_by_place)

    async def view_of(self, quota: str, tree: str = "") -> TreeView:
        """Returns the tree of a quota; of `root` the one that is named. Raises NotFound, Unavailable."""
        return await self.of(tree if quota == ROOT else (await self._trees.find(quota)).quota.tree).view()

    async def view_at(self, quota: str, at: datetime) -> TreeView:
        """Returns the tree of a quota as it was, without its claims. Raises NotFound, also for a moment of which
        nothing is kept; Unavailable."""
        declared = self._trees.quotas().get(quota)
        trees = list(self._trees.names()) if declared is None else [declared.quota.tree]
        for past in [await self._past(tree, at) for tree in trees]:
            if past is not None and any(figures.name == quota for figures in past.quotas):
                return _past_view(past)
        raise _not_kept(f"quota {quota}", at)

    async def whole_at(self, tree: str, at: datetime) -> TreeView:
        """Returns a tree as it was, without its claims. Raises NotFound, Unavailable."""
        past = await self._past(tree, at)
        if past is None:
            raise _not_kept(f"tree {tree_key(tree)}", at)
        return _past_view(past)

    async def _past(self, tree: str, at: datetime) -> PastTree | None:
        async with self._store.unit_of_work() as unit:
            return await unit.past(tree, at.timestamp())

    async def observed(self, tree: str) -> ObservedClaims:
        """Returns how the claims of a tree differ from what agents report. A tree of which nothing but the default
        quota is declared leaves what runs without a claim alone. Raises Unavailable."""
        live = await self.of(tree).live()
        declared = {name for name, document in self._trees.quotas().items() if document.quota.tree == tree}
        nodes = self._trees.nodes(tree) if declared - {CLUSTER} else ()
        ended = self._history.recent(tree, self._clock.now().timestamp())
        return observe_claims(live, ended, self._trees.running, frozenset(nodes), self._clock.now().timestamp())

    async def answered(self, tree: str, change: Callable[[ReclaimGrant], ReclaimGrant]) -> None:
        """Take an answer to a tree's request for a grant; `tree` is its key in events. Raises Conflict, Unavailable."""
        for name in self._trees.names():
            if tree_key(name) == tree:
                await self.of(name).answer(change)

    async def counts(self) -> Mapping[str, int]:
        """Returns how many claims of each quota have not ended, whether this replica knows their trees or not. Raises
        Unavailable."""
        async with self._store.unit_of_work() as unit:
            return Counter(stored.claim.quota for stored in await unit.live())

    async def counts_for_change(self, unit: UnitOfWork, trees: Collection[str], revision: int) -> Mapping[str, int]:
        """Returns how many claims of each quota of these trees have not ended, for a change of quotas in the
        transaction `unit`. Until it ends no claim of the trees changes; decisions that were made before, by any
        replica, are then made again with this revision of the quotas at least. Raises Conflict, Unavailable."""
        ledger, counts = self._store.joined(unit), Counter[str]()
        for tree in sorted(trees):
            stored = await ledger.lock(tree)
            await ledger.advance(replace(stored, quotas_revision=revision))
            counts.update(kept.claim.quota for kept in await ledger.claims(tree))
        return counts

    async def runtime_changes(
        self, before: Mapping[str, DeclaredQuota], after: Mapping[str, DeclaredQuota]
    ) -> Sequence[RuntimeChange]:
        """Returns what a change of quotas would do, with what is claimed now. Raises Unavailable."""
        requested: dict[str, dict[str, int]] = {}
        used: dict[str, dict[str, int]] = {}
        async with self._store.unit_of_work() as unit:
            trees = {declared.quota.tree for declared in (*before.values(), *after.values())}
            claims = [stored.claim for tree in sorted(trees) for stored in await unit.claims(tree)]
        for claim in claims:
            for sums, amounts in ((requested, claim.wants), (used, claim.holds)):
                found = sums.setdefault(claim.quota, {})
                for resource, amount in amounts.items():
                    found[resource] = found.get(resource, 0) + amount
        old, new = (
            [
                replace(document.quota, own_request=requested.get(name, {}), own_used=used.get(name, {}))
                for name, document in sorted(declared.items())
            ]
            for declared in (before, after)
        )
        return runtime_changes(old, new, self._trees.all_totals())

    async def _tree_of(self, quota: str, claim: str) -> str:
        """The tree of a quota; that of a claim whose quota was deleted in the moment of its admission, because such a
        claim has to be released too. Raises NotFound for the quota, Unavailable."""
        try:
            return (await self._trees.find(quota)).quota.tree
        except NotFound:
            async with self._store.unit_of_work() as unit:
                stored = (await unit.find([claim])).get(claim)
            if stored is None or stored.claim.quota != quota:
                raise
            return stored.tree

    async def _carry_out(self, request: ClaimRequest, *, dry_run: bool) -> tuple[ClaimStanding, bool]:
        arbiter = self.of(await self._tree_of(request.quota, request.id))
        if dry_run:
            return ClaimStanding(await arbiter.preview(request), is_tried=True), False
        done = await arbiter.decide(request)
        assert done.result is not None  # noqa: S101 - decide raises otherwise
        return arbiter.standing(done.result), done.is_new


def _by_place(standing: ClaimStanding) -> tuple[int, float, str]:
    claim: KeptClaim = standing.kept
    return (0 if standing.place is None else standing.place.position, claim.claim.submitted_s, claim.claim.id)


def _past_view(past: PastTree) -> TreeView:
    sums, figures = past.figures()
    quotas = {quota.name: quota for quota in past.quotas}
    return TreeView(past.tree, past.generation, past.totals, quotas, sums, dict(figures), (), {}, past.at_s)


def _not_kept(what: str, at: datetime) -> NotFound:
    said = f"nothing is kept of {what} at {at:%Y-%m-%dT%H:%M:%SZ}: it was not declared, or that is too long ago"
    return NotFound(said, code="quota_history_not_found")
