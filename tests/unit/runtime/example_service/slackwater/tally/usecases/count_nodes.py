"""Nodes by pool, of the partitions of this replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Lease


class CountNodes:
    """slackwater.runtime.partition_sharding.Holder."""

    def __init__(self, clock: Clock, forget_seconds: float) -> None:
        self._clock = clock
        self._forget = timedelta(seconds=forget_seconds)
        self._nodes: dict[str, tuple[str, datetime]] = {}

    async def describe(self, event: Event[NodeDescribed]) -> None:
        """Delivering it twice changes nothing."""
        self._nodes[event.data.facts.name] = event.data.facts.pool, self._clock.now()

    async def forget(self) -> None:
        """Drop the nodes that were not described for too long."""
        oldest = self._clock.now() - self._forget
        self._nodes = {node: known for node, known in self._nodes.items() if known[1] >= oldest}

    def counts(self) -> Mapping[str, int]:
        """By pool."""
        return Counter(pool for pool, _ in self._nodes.values())

    async def acquire(self, leases: Sequence[Lease]) -> None:
        """Nothing is stored: the count begins anew."""

    async def release(self, leases: Sequence[Lease]) -> None:
        """Nothing is stored."""

    def drop(self, partitions: Collection[int]) -> None:
        self._nodes = {node: known for node, known in self._nodes.items() if partition_of(node) not in partitions}
