"""Applies strategy changes to offers: each replica recomputes the nodes it owns, whichever replica stored the
change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from slackwater.colocation.ports import FollowerStore
from slackwater.colocation.usecases.follow_strategies import follow_strategies, publish_document_problems
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce
from slackwater.model.errors import Conflict, Unavailable
from slackwater.runtime.ownership import Lease
from slackwater.runtime.resource_news import AGAIN_SECONDS, ResourceNews, unusable_text
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class StrategyNews:
    """Reloads the documents after a change and recomputes the nodes that follow them.

    Implements slackwater.runtime.partition_sharding.Holder, because nodes of an acquired partition may have missed a
    change.
    """

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

    def notify(self) -> None:
        """Signals that a document was published to the replicas."""
        self._documents.notify()

    async def read(self) -> None:
        """Reloads documents after each change, until cancelled."""
        await self._documents.follow()

    async def follow(self) -> None:
        """Recomputes nodes after each change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                partitions = self._working()
                await publish_document_problems(self._offering, self._nodes, self._strategies, partitions)
                changed = await follow_strategies(self._offering, self._nodes, partitions)
                log.info("nodes follow the strategies", offers_changed=changed)
            except (Conflict, Unavailable) as error:
                log.warning("strategies are followed later", reason=error.message)
                await self._offering.clock.sleep(AGAIN_SECONDS)
                self._changed.set()

    async def acquire(self, leases: Sequence[Lease]) -> None:
        self._changed.set()

    async def release(self, leases: Sequence[Lease]) -> None:
        """No-op: the fence rejects writes that are still in progress."""

    def drop(self, partitions: Collection[int]) -> None:
        """No-op, as for `give`."""

    def status_text(self) -> str:
        """Returns the health detail: the number of documents, and those that cannot be used."""
        return f"{len(self._strategies.now.values)} documents{unusable_text(self._strategies.problems)}"
