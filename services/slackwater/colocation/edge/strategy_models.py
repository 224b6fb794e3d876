"""What a dry run of ColocationStrategies also answers: what nodes would offer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from slackwater.colocation.domain import what_if
from slackwater.colocation.usecases.try_strategies import NodeTried, OffersWanted, PoolTried, Tried
from slackwater.model.quantities import Resources

NAMED = 100
Most = Annotated[
    int, Query(ge=0, le=10_000, description="With dryRun: how many nodes are named, those that change most first.")
]
Offers = Annotated[bool, Query(description="With dryRun: false leaves the offers out, which takes no time then.")]


def preview_parameters(limit: Most = NAMED, offers: Offers = True) -> OffersWanted:
    """Query parameters of a dry run."""
    return OffersWanted(limit, offers)


class TierOffers(BaseModel):
    """What is offered to batch and to mid: milli-cores and bytes."""

    model_config = ConfigDict(from_attributes=True)

    batch: Resources
    mid: Resources


class NodeOffersTried(BaseModel):
    """One node. `in_force` is what was told last; `before` and `after` are what is computed now under the strategies in
    force and under the wanted ones, without hysteresis, so that they differ by the strategies alone. `changed` is the
    largest difference of them as a share of the node's capacity."""

    node: str
    pool: str
    in_force: TierOffers
    before: TierOffers
    after: TierOffers
    strategies_before: tuple[str, ...]
    strategies_after: tuple[str, ...]
    problem: str = Field(description="why words of the node itself would not count; empty if they do")
    changed: float


class PoolOffersTried(BaseModel):
    """Sums over all nodes of a pool; `changed` of them would offer something else."""

    pool: str
    nodes: int
    changed: int
    in_force: TierOffers
    before: TierOffers
    after: TierOffers


class OffersTried(BaseModel):
    """The offers of every node before and after. Sums are over all nodes; `nodes` has those that change most, the most
    changed first, and leaves `left_out` of them out. Of `unknown` nodes too little has been heard yet."""

    computed_at: datetime
    pools: list[PoolOffersTried]
    nodes: list[NodeOffersTried]
    left_out: int
    unknown: int

    @classmethod
    def of(cls, tried: Tried) -> OffersTried:
        return cls(
            computed_at=tried.computed_at,
            pools=[_pool(each) for each in tried.pools],
            nodes=[_node(each) for each in tried.nodes],
            left_out=tried.left_out,
            unknown=tried.unknown,
        )


def _offers(offers: what_if.Offers) -> TierOffers:
    return TierOffers(batch=offers.batch, mid=offers.mid)


def _pool(pool: PoolTried) -> PoolOffersTried:
    return PoolOffersTried(
        pool=pool.pool,
        nodes=pool.nodes,
        changed=pool.changed,
        in_force=_offers(pool.in_force),
        before=_offers(pool.before),
        after=_offers(pool.after),
    )


def _node(node: NodeTried) -> NodeOffersTried:
    return NodeOffersTried(
        node=node.node,
        pool=node.pool,
        in_force=_offers(node.in_force),
        before=_offers(node.before),
        after=_offers(node.after),
        strategies_before=node.strategies_before,
        strategies_after=node.strategies_after,
        problem=node.problem,
        changed=round(node.changed, 6),
    )
