"""Fleet-wide reads in memory, with the same sums as PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slackwater.console.domain.fleet import (
    FRESH,
    FleetLevel,
    Gained,
    NodeQuery,
    Totals,
    attention,
    gained,
    is_fresh,
    order,
    requested,
    shown,
)
from slackwater.console.domain.pools import PoolRow, PoolSums, pool_sums
from slackwater.console.domain.views import ForecastView, NodeView, OfferView, PodView
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import LentUse, lent_use

NOTHING = Resources()


class MemoryFleet:
    """Implements slackwater.console.ports.FleetReads."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, tuple[PodView, ...]] = {}
        self._levels: dict[datetime, FleetLevel] = {}
        self._latest: dict[str, ForecastView] = {}

    def _fresh(self, fresh_after: datetime) -> list[NodeView]:
        return [node for node in self._nodes.values() if is_fresh(node, fresh_after + FRESH)]

    async def level(self, at: datetime, fresh_after: datetime) -> FleetLevel:
        fresh = self._fresh(fresh_after)
        reports = [node.usage for node in fresh if node.usage]
        tiers = defaultdict[str, Resources](Resources)
        for report in reports:
            for name, part in report.tiers.items():
                tiers[name] += part
        return FleetLevel(
            at=at,
            nodes=len(fresh),
            silent=len(self._nodes) - len(fresh),
            capacity=sum((node.facts.capacity for node in fresh if node.facts), NOTHING),
            requested=sum((requested(self._pods[node.name]) for node in fresh), NOTHING),
            offered=sum((node.offer.batch for node in fresh if node.offer), NOTHING),
            usage=sum((report.usage for report in reports), NOTHING),
            system=sum((report.beside_pods for report in reports), NOTHING),
            tiers={name: part for name, part in tiers.items() if part != NOTHING},
            borrowed=_lent_use(fresh).borrowed,
        )

    async def save_level(self, level: FleetLevel, at: datetime) -> None:
        self._levels.setdefault(at, replace(level, at=at))

    async def levels(self, since: datetime, until: datetime, step_seconds: int) -> Sequence[FleetLevel]:
        buckets = defaultdict[int, list[FleetLevel]](list)
        for at, level in self._levels.items():
            if since <= at <= until:
                buckets[int(at.timestamp() // step_seconds) * step_seconds].append(level)
        return [_mean_level(start, buckets[start]) for start in sorted(buckets)]

    async def gained(self, since: datetime, until: datetime) -> Gained:
        inside = [level for at, level in self._levels.items() if since <= at <= until]
        use = sum((LentUse(level.offered, level.borrowed, level.beyond) for level in inside), LentUse())
        return gained(since, until, len(inside), use)

    async def totals(self, fresh_after: datetime, waterline: float) -> Totals:
        reports = [node.usage for node in self._fresh(fresh_after) if node.usage]
        pressures = [report.prod_pressure for report in reports if report.prod_pressure is not None]
        throttled = [report.throttled_pods for report in reports if report.throttled_pods]
        return Totals(
            nodes=len(self._nodes),
            fresh=len(reports),
            lost=sum(node.liveness == "lost" for node in self._nodes.values()),
            above=sum(pressure > waterline for pressure in pressures),
            throttled_nodes=len(throttled),
            throttled_pods=sum(throttled),
            pods=sum(report.pods for report in reports),
            worst_pressure=max(pressures, default=None),
        )

    async def pools(self, fresh_after: datetime, waterline: float) -> Sequence[PoolRow]:
        by_pool = defaultdict[str, list[NodeView]](list)
        for node in self._nodes.values():
            by_pool[node.facts.pool if node.facts else ""].append(node)
        rows = [self._pool(pool, nodes, fresh_after + FRESH, waterline) for pool, nodes in by_pool.items()]
        return sorted(rows, key=lambda row: (-row.above, row.fresh - row.nodes, -row.throttled_pods, row.pool))

    def _pool(self, pool: str, nodes: Sequence[NodeView], now: datetime, waterline: float) -> PoolRow:
        fresh = [node for node in nodes if is_fresh(node, now)]
        offers = [node.offer for node in fresh if node.offer]
        return PoolRow(
            pool=pool,
            nodes=len(nodes),
            fresh=len(fresh),
            above=sum(attention(node, now, waterline) == 3 for node in fresh),
            throttled_pods=sum(node.usage.throttled_pods for node in fresh if node.usage),
            degraded=sum(offer.degraded is not None for offer in offers),
            capacity=sum((node.facts.capacity for node in fresh if node.facts), NOTHING),
            used=sum((node.usage.usage for node in fresh if node.usage), NOTHING),
            reserve=sum((_reserve(node) for node in fresh), NOTHING),
            prod=sum((_tier(node, "prod") for node in fresh), NOTHING),
            expected=sum((_tier(node, "prod").larger_of(self._peak(node.name)) for node in fresh), NOTHING),
            mid=sum((offer.mid for offer in offers), NOTHING),
            mid_used=sum((_tier(node, "mid") for node in fresh), NOTHING),
            batch=sum((offer.batch for offer in offers), NOTHING),
            borrowed=_lent_use(fresh).borrowed,
            beyond=_lent_use(fresh).beyond,
        )

    def _peak(self, node: str) -> Resources:
        return self._latest[node].prod_peak if node in self._latest else NOTHING

    async def nodes_beyond(self, fresh_after: datetime, limit: int) -> Sequence[NodeView]:
        uses = [(_lent_use([node]).beyond, node) for node in self._fresh(fresh_after)]
        found = [(beyond, node) for beyond, node in uses if beyond != NOTHING]
        found.sort(key=lambda one: (-one[0].cpu_milli, -one[0].memory_bytes, one[1].name))
        return [node for _, node in found[:limit]]

    async def pool_sums(self, pool: str) -> PoolSums | None:
        nodes = [node for node in self._nodes.values() if node.facts and node.facts.pool == pool]
        return pool_sums(nodes) if nodes else None

    async def pool_offers(self, pool: str, after: str, limit: int) -> Sequence[OfferView]:
        nodes = [self._nodes[name] for name in sorted(self._nodes) if name > after]
        offers = [node.offer for node in nodes if node.offer and node.facts and node.facts.pool == pool]
        return offers[:limit]

    async def nodes_shown(
        self, wanted: NodeQuery, fresh_after: datetime, waterline: float
    ) -> tuple[int, Sequence[NodeView]]:
        now = fresh_after + FRESH
        nodes = [node for node in self._nodes.values() if shown(node, wanted, now, waterline)]
        nodes.sort(key=lambda node: order(node, now, waterline))
        return len(nodes), nodes[wanted.offset : wanted.offset + wanted.limit]

    async def throttled_pods(self, fresh_after: datetime, limit: int) -> Sequence[PodView]:
        nodes = [node for node in self._fresh(fresh_after) if node.usage and node.usage.throttled_pods]
        nodes.sort(key=lambda node: (-((node.usage and node.usage.prod_pressure) or 0.0), node.name))
        pods = [pod for node in nodes for pod in sorted(self._pods[node.name], key=lambda pod: pod.name)]
        return [pod for pod in pods if pod.throttled][:limit]


def _lent_use(nodes: Sequence[NodeView]) -> LentUse:
    parts = [lent_use(node.offer.batch if node.offer else None, node.usage.tiers) for node in nodes if node.usage]
    return sum(parts, LentUse())


def _tier(node: NodeView, tier: str) -> Resources:
    return node.usage.tiers.get(tier, NOTHING) if node.usage else NOTHING


def _reserve(node: NodeView) -> Resources:
    system = node.usage.beside_pods if node.usage else NOTHING
    return system.larger_of(node.facts.reserved) if node.facts else system


def _mean_level(start: int, levels: Sequence[FleetLevel]) -> FleetLevel:
    names = sorted({name for level in levels for name in level.tiers})
    tiers = {name: _mean([level.tiers.get(name, NOTHING) for level in levels]) for name in names}
    return FleetLevel(
        at=datetime.fromtimestamp(start, UTC),
        nodes=_half_up(sum(level.nodes for level in levels), len(levels)),
        silent=_half_up(sum(level.silent for level in levels), len(levels)),
        capacity=_mean([level.capacity for level in levels]),
        requested=_mean([level.requested for level in levels]),
        offered=_mean([level.offered for level in levels]),
        usage=_mean([level.usage for level in levels]),
        system=_mean([level.system for level in levels]),
        tiers={name: part for name, part in tiers.items() if part != NOTHING},
        borrowed=_mean([level.borrowed for level in levels]),
    )


def _mean(amounts: Sequence[Resources]) -> Resources:
    count = len(amounts)
    return Resources(
        _half_up(sum(a.cpu_milli for a in amounts), count), _half_up(sum(a.memory_bytes for a in amounts), count)
    )


def _half_up(total: int, count: int) -> int:
    """The mean rounded as PostgreSQL does."""
    return (2 * total + count) // (2 * count)
