"""The offers in the answer of a dry run of ColocationStrategies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from slackwater.colocation.usecases.preview_strategies import NodePreview, OffersWanted, PoolPreview, StrategyPreview
from slackwater.model.quantities import Resources
from slackwater.offers import what_if

NAMED = 100
Most = Annotated[
    int,
    Query(
        ge=0,
        le=10_000,
        description="With dryRun: maximum number of nodes in the answer, those with the largest change first.",
    ),
]
Offers = Annotated[bool, Query(description="With dryRun: false skips the computation of offers.")]


def preview_parameters(limit: Most = NAMED, offers: Offers = True) -> OffersWanted:
    """Returns the options of a dry run from its query parameters."""
    return OffersWanted(limit, offers)


class TierOffers(BaseModel):
    """What is offered to batch and to mid: milli-cores and bytes."""

    model_config = ConfigDict(from_attributes=True)

    batch: Resources
    mid: Resources


class NodeOffersTried(BaseModel):
    """One node. `in_force` is the last published offer. `before` and `after` are computed now under the strategies in
    force and under the new ones, without hysteresis, so that they differ by the strategies alone. `changed` is their
    largest difference as a ratio of the node's capacity.
    """

    node: str
    pool: str
    in_force: TierOffers
    before: TierOffers
    after: TierOffers
    strategies_before: tuple[str, ...]
    strategies_after: tuple[str, ...]
    problem: str = Field(description="Why the node's own annotations or labels would not apply; empty if they do.")
    changed: float


class PoolOffersTried(BaseModel):
    """Sums over all nodes of a pool; `changed` of them would offer another amount."""

    pool: str
    nodes: int
    changed: int
    in_force: TierOffers
    before: TierOffers
    after: TierOffers


class OffersTried(BaseModel):
    """The offers of every node before and after. Sums are over all nodes. `nodes` has those with the largest change
    first and omits `left_out` of them. Too little data has been received yet of `unknown` nodes.
    """

    computed_at: datetime
    pools: list[PoolOffersTried]
    nodes: list[NodeOffersTried]
    left_out: int
    unknown: int

    @classmethod
    def of(cls, tried: StrategyPreview) -> OffersTried:
        return cls(
            computed_at=tried.computed_at,
            pools=[_pool(pool) for pool in tried.pools],
            nodes=[_node(node) for node in tried.nodes],
            left_out=tried.left_out,
            unknown=tried.unknown,
        )


def _offers(offers: what_if.PreviewOffers) -> TierOffers:
    return TierOffers(batch=offers.batch, mid=offers.mid)


def _pool(pool: PoolPreview) -> PoolOffersTried:
    return PoolOffersTried(
        pool=pool.pool,
        nodes=pool.nodes,
        changed=pool.changed,
        in_force=_offers(pool.in_force),
        before=_offers(pool.before),
        after=_offers(pool.after),
    )


def _node(node: NodePreview) -> NodeOffersTried:
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
