"""Trees of quotas and the sums behind their runtimes, in answers of the API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, Field

from slackwater.fairshare.tree import ROOT, Quota
from slackwater.fairshare.validation import SYSTEM
from slackwater.model.errors import NotFound
from slackwater.quota.domain.claim_runs import UnclaimedWorkload
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.edge.claim_models import ReclaimableView
from slackwater.quota.usecases.tree_view import TreeView

ByResource = dict[str, int]


class QuotaNode(BaseModel):
    """One quota with those below it. Amounts are milli-cores of a CPU, else whole units; docs/concepts/quotas.md has
    the meaning of each word."""

    name: str
    parent: str
    depth: int
    is_parent: bool
    min: ByResource
    max: ByResource
    used: ByResource
    requested: ByResource
    entitled: ByResource
    runtime: ByResource
    fair_share: ByResource
    borrowed: ByResource
    lent: ByResource
    owed: ByResource
    holding: int = Field(description="Its own claims that use something.")
    queued: int = Field(description="Its own claims that wait.")


class UnclaimedView(BaseModel):
    """A workload that agents report and that no claim holds for; `claim` is one that has ended."""

    workload: str
    claim: str
    pods: int
    since: datetime
    amounts: ByResource


class QuotaTree(BaseModel):
    """A tree or a part of it, parents before their children. `total` is what the pool has for it now, without what the
    pods of the `system` itself request there; `reserved` of it is kept by reservations for pods to come, and counts as
    used in no quota. `unclaimed` runs on its nodes, and no quota counts it."""

    tree: str
    generation: int
    total: ByResource
    system: ByResource
    reserved: ByResource = {}
    nodes: int
    unschedulable_nodes: int
    quotas: list[QuotaNode]
    unclaimed: list[UnclaimedView]

    @classmethod
    def of(cls, view: TreeView, quota: str, unclaimed: Sequence[UnclaimedWorkload] = ()) -> QuotaTree:
        """Returns the part below `quota`, itself included. Raises NotFound."""
        return cls(
            tree=tree_key(view.tree),
            generation=view.generation,
            total=dict(view.totals.total),
            system=dict(view.totals.system),
            reserved=dict(view.totals.reserved),
            nodes=view.totals.nodes,
            unschedulable_nodes=view.totals.unschedulable,
            quotas=list(_below(view, quota)),
            unclaimed=[
                UnclaimedView(
                    workload=workload.workload,
                    claim=workload.claim,
                    pods=workload.pods,
                    since=datetime.fromtimestamp(workload.since_s, UTC),
                    amounts=dict(workload.amounts),
                )
                for workload in unclaimed
            ],
        )


class QuotaReclaims(BaseModel):
    """What is reclaimed from a quota and those below it: `reclaiming` has to end; `next` would have to, in this order,
    if all that they borrow were asked for. A reclaim takes no more of it than the lender needs."""

    quota: str
    tree: str
    generation: int
    reclaiming: list[ReclaimableView]
    next: list[ReclaimableView]

    @classmethod
    def of(cls, view: TreeView, quota: str) -> QuotaReclaims:
        """Returns the reclaims below `quota`, its own included. Raises NotFound."""
        names = {node.name for node in _below(view, quota)}
        return cls(
            quota=quota,
            tree=tree_key(view.tree),
            generation=view.generation,
            reclaiming=[ReclaimableView.of(claim) for claim in view.reclaiming() if claim.quota in names],
            next=[ReclaimableView.of(claim) for claim in view.candidates() if claim.quota in names],
        )


class RoundView(BaseModel):
    """One distribution by weight of what was left."""

    pool: int
    weights: int
    given: int
    returned: int


class DimensionView(BaseModel):
    """How the runtime of a quota came about in one resource: first + given - returned of each round = runtime."""

    resource: str
    total: int = Field(description="Of the parent.")
    min: int
    scaled_min: int = Field(description="Lower than min where the mins of the level do not fit into the total.")
    guaranteed: int
    entitled: int = Field(description="Whatever others request; scaled down only where the pool is too small.")
    request: int
    weight: int
    first: int = Field(description="Before weights count.")
    rounds: list[RoundView]
    runtime: int
    used: int
    borrowed: int
    lent: int
    owed: int
    lenders: ByResource = Field(description="Siblings that lend, and how much.")
    borrowers: ByResource = Field(description="Siblings that borrow, and how much.")


class QuotaWhy(BaseModel):
    """The sum behind the runtime of a quota, by resource."""

    quota: str
    parent: str
    tree: str
    generation: int
    since: datetime | None = Field(description="Of a past state: when it was first seen so. Null: the state now.")
    dimensions: list[DimensionView]
    next_reclaims: list[ReclaimableView] = Field(
        default=[], description="Of it and those below it, in this order; of a past state none are kept."
    )

    @classmethod
    def of(cls, view: TreeView, quota: str) -> QuotaWhy:
        """Returns the sums of `quota`. Raises NotFound."""
        declared = _declared(view, quota)
        return cls(
            quota=quota,
            parent=declared.parent,
            tree=tree_key(view.tree),
            generation=view.generation,
            since=None if view.at_s is None else datetime.fromtimestamp(view.at_s, UTC),
            dimensions=list(_dimensions(view, declared)),
            next_reclaims=QuotaReclaims.of(view, quota).next,
        )

    @classmethod
    def of_system(cls, view: TreeView) -> QuotaWhy:
        """Returns what pods of the system request: it comes off what the pool has, before anything is shared."""
        total, system = view.totals.total, view.totals.system
        return cls(
            quota=SYSTEM,
            parent=ROOT,
            tree=tree_key(view.tree),
            generation=view.generation,
            since=None if view.at_s is None else datetime.fromtimestamp(view.at_s, UTC),
            dimensions=[
                DimensionView(
                    resource=resource,
                    total=total.get(resource, 0) + amount,
                    min=0,
                    scaled_min=0,
                    guaranteed=0,
                    entitled=amount,
                    request=amount,
                    weight=0,
                    first=amount,
                    rounds=[],
                    runtime=amount,
                    used=amount,
                    borrowed=0,
                    lent=0,
                    owed=0,
                    lenders={},
                    borrowers={},
                )
                for resource, amount in sorted(system.items())
            ],
        )


def _declared(view: TreeView, quota: str) -> Quota:
    if quota not in view.quotas:
        raise NotFound(f"tree {tree_key(view.tree)} has no quota {quota}", code="elasticquota_not_found")
    return view.quotas[quota]


def _below(view: TreeView, quota: str) -> Iterator[QuotaNode]:
    if quota != ROOT:
        _declared(view, quota)
    depths: dict[str, int] = {}
    holding: dict[str, int] = {}
    queued: dict[str, int] = {}
    for stored in view.claims:
        counts = holding if stored.claim.holds else queued
        counts[stored.claim.quota] = counts.get(stored.claim.quota, 0) + 1
    for name, declared in view.quotas.items():  # parents before children
        if declared.parent not in depths and name != quota and not (quota == ROOT and declared.parent == ROOT):
            continue
        depths[name] = depths.get(declared.parent, 0) + 1
        figures = view.accounts[name]
        yield QuotaNode(
            name=name,
            parent=declared.parent,
            depth=depths[name],
            is_parent=declared.is_parent,
            min=dict(declared.minimum),
            max=dict(declared.maximum),
            used=dict(figures.used),
            requested=dict(figures.requested),
            entitled=dict(figures.entitled),
            runtime=dict(figures.runtime),
            fair_share=dict(figures.fair_share),
            borrowed=dict(figures.borrowed),
            lent=dict(figures.lent),
            owed=dict(figures.owed),
            holding=holding.get(name, 0),
            queued=queued.get(name, 0),
        )


def _dimensions(view: TreeView, quota: Quota) -> Iterator[DimensionView]:
    level = view.ledger.levels[quota.parent]
    siblings = [each for each in view.quotas.values() if each.parent == quota.parent]
    figures = view.accounts[quota.name]
    demand = view.ledger.demand[quota.name]
    concerned = {*quota.maximum, *(key for key, amount in demand.request.items() if amount)}
    for resource in sorted(concerned & level.sharing.keys()):
        sharing = level.sharing[resource]
        yield DimensionView(
            resource=resource,
            total=level.total.get(resource, 0),
            min=quota.minimum.get(resource, 0),
            scaled_min=level.minimum[quota.name].get(resource, 0),
            guaranteed=quota.guaranteed.get(resource, 0),
            entitled=figures.entitled.get(resource, 0),
            request=demand.limited.get(resource, 0),
            weight=quota.weight_of(resource, level.total.get(resource, 0)),
            first=sharing.first[quota.name],
            rounds=[
                RoundView(
                    pool=each.pool,
                    weights=each.weights,
                    given=each.given.get(quota.name, 0),
                    returned=each.returned.get(quota.name, 0),
                )
                for each in sharing.rounds
            ],
            runtime=sharing.runtime[quota.name],
            used=figures.used.get(resource, 0),
            borrowed=figures.borrowed.get(resource, 0),
            lent=figures.lent.get(resource, 0),
            owed=figures.owed.get(resource, 0),
            lenders={
                sibling.name: lent
                for sibling in siblings
                if (lent := view.accounts[sibling.name].lent.get(resource, 0))
            },
            borrowers={
                sibling.name: borrowed
                for sibling in siblings
                if (borrowed := view.accounts[sibling.name].borrowed.get(resource, 0))
            },
        )
