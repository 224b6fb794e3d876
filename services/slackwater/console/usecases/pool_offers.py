"""The offers of a pool, one page at a time, with the sums over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.fleet import DEFAULT_WATERLINE, FRESH
from slackwater.console.domain.pools import PoolSums
from slackwater.console.domain.views import OfferView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import did_you_mean
from slackwater.model.errors import NotFound


@dataclass(frozen=True, slots=True)
class PoolPage:
    """One page by node; `more` says whether further nodes follow. `sums` cover all pages."""

    offers: Sequence[OfferView]
    more: bool
    sums: PoolSums


async def pool_offers(reads: ReadQueries, pool: str, after: str, limit: int, now: datetime) -> PoolPage:
    """Offers of nodes with a name after `after`. Raises NotFound with similar names."""
    sums = await reads.pool_sums(pool)
    if sums is None:
        known = [row.pool for row in await reads.pools(now - FRESH, DEFAULT_WATERLINE) if row.pool]
        message = f"no node of a pool {pool!r} is known{did_you_mean(pool, known)}"
        raise NotFound(message, code="pool_not_found", field="pool")
    offers = await reads.pool_offers(pool, after, limit + 1)
    return PoolPage(offers[:limit], len(offers) > limit, sums)
