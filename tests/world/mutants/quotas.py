"""Wrong versions of quota: each is found in a world of quotas alone."""

from __future__ import annotations

from functools import partial

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

PLANS, LIMITS, ORDER = "plans follow the ledger", "uses are within limits", "queue order is kept"
CLAIMS, NEEDED, SETTLED = "claims are found once", "reclaims take what is needed", "quotas are settled at rest"
POOLS, IN_USE = "plans know the pools", "quotas in use stay"
_mutant = partial(Mutant, quotas=True, size=(2, 120.0))
QUOTAS = (
    _mutant(
        "retry without generation",
        "a tree is written whatever another replica has written meanwhile",
        (
            Edit(
                "quota.adapters.claim_rows:KeyedLedgerUnit.advance",
                "written = replace(tree, generation=tree.generation + 1)",
                "written = replace(tree, generation=(await self.tree(tree.tree)).generation + 1)",
            ),
            Edit(
                "quota.adapters.claim_rows:KeyedLedgerUnit.advance",
                "self._trees.replace(written, tree.generation)",
                "self._trees.replace(written, (await self.tree(tree.tree)).generation)",
            ),
        ),
        (PLANS, LIMITS, CLAIMS),
        seed=2,
    ),
    _mutant(
        "release counted twice",
        "what a claim held is subtracted twice at its end",
        (
            Edit(
                "fairshare.claim_index:ClaimIndex._drop",
                "self._count(claim, -1)",
                "self._count(claim, -1 if claim.started_s is None else -2)",
            ),
        ),
        (LIMITS,),
        seed=1,
    ),
    _mutant(
        "cycle of quotas allowed",
        "a quota may be put below one that is below it",
        (Edit("fairshare.validation:_above", "if _circular(quotas, new):", "if False:"),),
        (SETTLED,),
        seed=1,
    ),
    _mutant(
        "reclaim takes more than needed",
        "victims that turn out not to be needed are asked to end as well, the whole quota at least",
        (
            Edit(
                "fairshare.victims:choose",
                "if not short:\n                break",
                "if not short:\n                pass",
            ),
            Edit("fairshare.victims:choose", "return _spared(state, chosen, missing)", "return chosen"),
        ),
        (NEEDED,),
        seed=7,
    ),
    _mutant(
        "queue ignores order",
        "the newest claim of a queue goes first",
        (
            Edit(
                "fairshare.queue_order:rank",
                "return (claim.submitted_s - claim.priority * aging_s, claim.submitted_s, claim.id)",
                "return (-claim.submitted_s, claim.submitted_s, claim.id)",
            ),
            Edit(
                "fairshare.queue_order:rank",
                "return (-float(claim.priority), claim.submitted_s, claim.id)",
                "return (-claim.submitted_s, claim.submitted_s, claim.id)",
            ),
        ),
        (ORDER,),
        seed=7,
    ),
    _mutant(
        "ended claims are forgotten",
        "a request that comes again after the end of its claim makes a new one",
        (
            Edit(
                "quota.adapters.claim_rows:KeyedLedgerUnit.find",
                "{**await self._ended.read(ids), **await self._claims.read(ids)}",
                "{**await self._claims.read(ids)}",
            ),
        ),
        (CLAIMS,),
        seed=2,
    ),
    _mutant(
        "pool without an end",
        "a claim is admitted whatever the pool has, and whatever other quotas do not lend",
        (
            Edit(
                "fairshare.occupancy:Occupancy.fits",
                "if root.get(resource, 0) + amount > self._total.get(resource, 0):",
                "if False:",
            ),
            Edit(
                "fairshare.occupancy:Occupancy.fits",
                "return self._seen is self._used or not any(self._beyond(quota, amounts))",
                "return True",
            ),
        ),
        (LIMITS,),
        seed=2,
    ),
    _mutant(
        "admission without a record",
        "decisions about claims are stored, and their records are not published",
        (
            Edit(
                "quota.usecases.decide_tree:events_of",
                "*(decision_event(decided, None, SERVICE) for decided in records),",
                "",
            ),
        ),
        (PLANS,),
        seed=1,
    ),
    _mutant(
        "claims that are never reclaimed are victims",
        "a claim that is not preemptible is asked to end like others",
        (Edit("fairshare.victims:in_reclaim_order", "if not claim.non_preemptible and", "if"),),
        (NEEDED,),
        seed=3,
    ),
    _mutant(
        "quotas in force are not followed",
        "a replica keeps the first layout of a tree for good",
        (Edit("quota.usecases.quota_trees:QuotaTrees.__init__", "quotas.on_change(self._layouts.clear)", "pass"),),
        (SETTLED, LIMITS, "records can be repeated"),
        seed=4,
    ),
    _mutant(
        "pools that are not read yet are empty",
        "a replica that has just started decides before it knows the nodes, and takes everything back",
        (Edit("quota.usecases.quota_trees:QuotaTrees.require_pools", "if not self._totals.is_known:", "if False:"),),
        (POOLS,),
        mended="a2033dd7",
        faults=("crash@quota|stop@quota",),
        seed=2,
    ),
    _mutant(
        "node that is back stays deleted",
        "a replica that starts drops every node that was ever deleted",
        (
            Edit(
                "quota.usecases.cluster_totals:ClusterTotals._delete",
                "if self._fold.apply(newest)",
                "if False",
            ),
        ),
        (POOLS,),
        mended="6ffaa07d",
        faults=("crash@quota|stop@quota",),
        seed=18,
    ),
    _mutant(
        "claims of unread trees do not count",
        "a replica that has just started deletes quotas that have claims",
        (
            Edit(
                "quota.usecases.manage_claims:ManageClaims.counts",
                "for stored in await unit.live()",
                "for stored in await unit.live() if stored.tree in self._trees.names()",
            ),
            Edit(
                "quota.usecases.manage_claims:ManageClaims.counts_for_change",
                "for kept in await ledger.claims(tree)",
                "for kept in await ledger.claims(tree) if tree in self._trees.names()",
            ),
        ),
        (IN_USE, SETTLED),
        mended="a10b05c5",
        faults=("crash@quota|stop@quota",),
        seed=11,
    ),
)
