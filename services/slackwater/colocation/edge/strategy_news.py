"""From news of the schema to offers: whichever replica changes a strategy, each decides anew for the nodes it owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from slackwater.colocation.ports import FollowerStore
from slackwater.colocation.usecases.follow_strategies import follow_strategies, tell_of_documents
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce
from slackwater.model.errors import Conflict, Unavailable
from slackwater.runtime.ownership import Lease
from slackwater.runtime.resource_news import AGAIN_SECONDS, ResourceNews, said_of
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class StrategyNews:
    """Reads the documents again when any has changed, and has nodes follow them. slackwater.runtime.sharding.Holder:
    nodes that are taken over may have missed a change."""

    def __init__(
        self,
        offering: Offering,
        strategies: StrategiesInForce,
        nodes: FollowerStore,
        working: Callable[[], Collection[int]],
    ) -> None:
        self._offering = offering
        self._strategies = strategies
        self._nodes = nodes
        self._working = working
        self._documents = ResourceNews(strategies, offering.clock)
        self._changed = asyncio.Event()
        strategies.on_change(self._changed.set)

    def tell(self) -> None:
        """Something was published to the replicas."""
        self._documents.tell()

    async def read(self) -> None:
        """Follow what is written, until cancelled."""
        await self._documents.follow()

    async def follow(self) -> None:
        """Have nodes follow it, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                partitions = self._working()
                await tell_of_documents(self._offering, self._nodes, self._strategies, partitions)
                changed = await follow_strategies(self._offering, self._nodes, partitions)
                log.info("nodes follow the strategies", offers_changed=changed)
            except (Conflict, Unavailable) as error:
                log.warning("strategies are followed later", reason=error.message)
                await self._offering.clock.sleep(AGAIN_SECONDS)
                self._changed.set()

    async def take(self, leases: Sequence[Lease]) -> None:
        self._changed.set()

    async def give(self, leases: Sequence[Lease]) -> None:
        """What is in hand ends by itself: the fence lets nothing through that is not ours any more."""

    def drop(self, partitions: Collection[int]) -> None:
        """The same."""

    def said(self) -> str:
        """For health: how many documents there are, and which of them cannot be used."""
        return f"{len(self._strategies.now.values)} documents{said_of(self._strategies.problems)}"
