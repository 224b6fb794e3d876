"""Handles node.described: stores the node's description in the inventory."""

from __future__ import annotations

from slackwater.bus.port import Done, Received, Reject, Settlement
from slackwater.events.node_described import NodeDescribed
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.ports import Ledgers
from slackwater.store.port import Database


class DescribeNode:
    """The handler of `ingestion-node-described`. Idempotent: an older description changes nothing."""

    def __init__(self, database: Database, ledgers: Ledgers) -> None:
        self._database = database
        self._ledgers = ledgers

    async def __call__(self, received: Received[NodeDescribed]) -> Settlement:
        data = received.event.data
        if data.facts.name != received.subject_key:
            return Reject(
                Refusal.WRONG_NODE,
                f"node: {data.facts.name!r} on the subject of {received.subject_key!r}; both must name the same node",
            )
        if (
            data.described_at.tzinfo is None
            or min(data.facts.capacity.cpu_milli, data.facts.capacity.memory_bytes) <= 0
        ):
            return Reject(Refusal.MALFORMED, f"described_at {data.described_at}, capacity {data.facts.capacity}")
        async with self._database.unit_of_work() as unit:
            await self._ledgers(unit).describe(data.facts, data.boot_epoch, data.described_at)
        return Done()
