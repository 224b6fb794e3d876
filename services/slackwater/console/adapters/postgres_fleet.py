"""Fleet-wide reads in PostgreSQL: sums over one row per node, and the stored levels of these sums."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from slackwater.console.adapters import fleet_statements as sql
from slackwater.console.adapters.queries import Queries
from slackwater.console.adapters.statements import NODES_NAMED
from slackwater.console.domain.fleet import FleetLevel, Gained, NodeQuery, Totals, gained
from slackwater.console.domain.pools import PoolRow, PoolSums
from slackwater.console.domain.views import NodeView, OfferView, PodView
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import LentUse

_NODE = TypeAdapter(NodeView)
_POD = TypeAdapter(PodView)
_OFFER = TypeAdapter(OfferView)


class PostgresFleet(Queries):
    """Implements slackwater.console.ports.FleetReads."""

    async def level(self, at: datetime, fresh_after: datetime) -> FleetLevel:
        nodes, silent, *amounts = (await self._rows(sql.LEVEL, fresh_after=fresh_after))[0]
        return _level(at, nodes, silent, amounts)

    async def save_level(self, level: FleetLevel, at: datetime) -> None:
        parts: dict[str, Resources] = {
            "capacity": level.capacity,
            "offered": level.offered,
            "requested": level.requested,
            "usage": level.usage,
            "system": level.system,
            "borrowed": level.borrowed,
            **level.tiers,
        }
        found = [parts.get(name, Resources()) for name in sql.LEVEL_AMOUNTS]
        amounts = [number for part in found for number in (part.cpu_milli, part.memory_bytes)]
        await self._execute(sql.SAVE_LEVEL, at=at, nodes=level.nodes, silent=level.silent, amounts=amounts)

    async def levels(self, since: datetime, until: datetime, step_seconds: int) -> Sequence[FleetLevel]:
        rows = await self._rows(sql.LEVELS, since=since, until=until, seconds=step_seconds)
        return [_level(datetime.fromtimestamp(int(row[0]), UTC), row[1], row[2], row[3:]) for row in rows]

    async def gained(self, since: datetime, until: datetime) -> Gained:
        levels, *sums = (await self._rows(sql.GAINED, since=since, until=until))[0]
        milli, memory = [int(amount) for amount in sums[:3]], [int(amount) for amount in sums[3:]]
        return gained(since, until, levels, LentUse(*map(Resources, milli, memory)))

    async def totals(self, fresh_after: datetime, waterline: float) -> Totals:
        return Totals(*(await self._rows(sql.TOTALS, fresh_after=fresh_after, waterline=waterline))[0])

    async def pools(self, fresh_after: datetime, waterline: float) -> Sequence[PoolRow]:
        rows = await self._rows(sql.POOLS, fresh_after=fresh_after, waterline=waterline)
        return [_pool_row(*row) for row in rows]

    async def nodes_beyond(self, fresh_after: datetime, limit: int) -> Sequence[NodeView]:
        rows = await self._rows(sql.NODES_BEYOND, fresh_after=fresh_after, limit=limit)
        return await self._named([row[0] for row in rows])

    async def pool_sums(self, pool: str) -> PoolSums | None:
        row = (await self._rows(sql.SUMS_OF_POOL, pool=pool))[0]
        return _pool_sums(*row) if row[0] else None

    async def pool_offers(self, pool: str, after: str, limit: int) -> Sequence[OfferView]:
        return await self._all(_OFFER, sql.OFFERS_OF_POOL, pool=pool, after=after, limit=limit)

    async def nodes_shown(
        self, wanted: NodeQuery, fresh_after: datetime, waterline: float
    ) -> tuple[int, Sequence[NodeView]]:
        asked: dict[str, Any] = {
            "show": wanted.show,
            "pool": wanted.pool,
            "text": wanted.text,
            "fresh_after": fresh_after,
            "waterline": waterline,
        }
        count = (await self._rows(sql.NODE_COUNT, **asked))[0][0]
        rows = await self._rows(sql.NODE_NAMES, **asked, limit=wanted.limit, offset=wanted.offset)
        return count, await self._named([row[0] for row in rows])

    async def _named(self, names: Sequence[str]) -> Sequence[NodeView]:
        """These nodes, in this order."""
        nodes = {node.name: node for node in await self._all(_NODE, NODES_NAMED, names=list(names))}
        return [nodes[name] for name in names if name in nodes]

    async def throttled_pods(self, fresh_after: datetime, limit: int) -> Sequence[PodView]:
        return await self._all(_POD, sql.THROTTLED_PODS, fresh_after=fresh_after, limit=limit)


def _level(at: datetime, nodes: Any, silent: Any, amounts: Sequence[Any]) -> FleetLevel:
    parts = dict(zip(sql.LEVEL_AMOUNTS, _pairs(amounts), strict=True))
    return FleetLevel(
        at=at,
        nodes=int(nodes),
        silent=int(silent),
        capacity=parts.pop("capacity"),
        requested=parts.pop("requested"),
        offered=parts.pop("offered"),
        usage=parts.pop("usage"),
        system=parts.pop("system"),
        borrowed=parts.pop("borrowed"),
        tiers={name: part for name, part in parts.items() if part != Resources()},
    )


def _pool_row(pool: str, nodes: int, fresh: int, above: int, throttled: int, degraded: int, *amounts: Any) -> PoolRow:
    return PoolRow(pool, nodes, fresh, above, throttled, degraded, *_pairs(amounts))


def _pool_sums(nodes: int, offering: int, degraded: int, overoffered: int, *amounts: Any) -> PoolSums:
    return PoolSums(nodes, offering, degraded, overoffered, *_pairs(amounts))


def _pairs(amounts: Sequence[Any]) -> list[Resources]:
    """Resources from alternating CPU and memory amounts."""
    numbers = [int(number or 0) for number in amounts]
    return [Resources(cpu, memory) for cpu, memory in zip(numbers[::2], numbers[1::2], strict=True)]
