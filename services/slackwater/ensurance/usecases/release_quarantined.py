"""A node in quarantine is left alone: its throttles are restored, and its agent decides by itself until release."""

from __future__ import annotations

from contextlib import suppress

from slackwater.bus.port import Bus
from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.ports import NODES
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.ensurance.usecases.on_described import OnDescribed
from slackwater.ensurance.usecases.reconcile_intents import ReconcileIntents
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import partition_of
from slackwater.store.quarantine import Item


class ReleaseQuarantined:
    """Handles quarantine items of nodes. The node's row is not written."""

    def __init__(
        self,
        cache: GuardedNodeCache,
        intents: GuardIntents,
        reconcile: ReconcileIntents,
        bus: Bus,
        described: OnDescribed,
    ) -> None:
        self._cache = cache
        self._intents = intents
        self._reconcile = reconcile
        self._bus = bus
        self._described = described

    async def hold(self, item: Item) -> None:
        """Declare an intent that wants nothing and holds for no time. Raises Unavailable, Conflict, Fenced."""
        if item.table == NODES and item.node:
            await self._intents.withdraw(item.node, _empty)

    async def release(self, item: Item) -> None:
        """Read the node as it is stored and as it described itself last, and declare its intent again. Raises
        Unavailable, Conflict, Fenced."""
        if item.table == NODES and item.node:
            partition = partition_of(item.node)
            if self._cache.owns(partition):
                await self._cache.acquire([partition], self._intents.clock.now())
                event = await self._bus.latest(NodeDescribed, item.node)
                if event is not None:
                    with suppress(InvalidInput):  # refused before as a dead letter; the stored facts count
                        await self._described(event)
                await self._reconcile.declare([item.node])


def _empty(node: str, generation: int) -> GuardedNode:
    return GuardedNode(node, capacity_milli=1, generation=generation)
