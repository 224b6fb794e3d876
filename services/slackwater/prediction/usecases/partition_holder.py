"""Restores, saves and drops the partitions of this replica as their leases change."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from slackwater.prediction.metrics import CalibrationMetrics
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions
from slackwater.runtime.ownership import Lease


class PartitionHolder:
    """Implements slackwater.runtime.partition_sharding.Holder: restores an acquired partition, snapshots a released
    one."""

    def __init__(self, shares: OwnedPartitions, meter: CalibrationMetrics) -> None:
        self._shares = shares
        self._meter = meter
        self._closing: set[asyncio.Task[None]] = set()

    async def acquire(self, leases: Sequence[Lease]) -> None:
        await self._shares.acquire([lease.partition for lease in leases])

    async def release(self, leases: Sequence[Lease]) -> None:
        await self._shares.release([lease.partition for lease in leases])
        for lease in leases:
            self._meter.dropped(lease.partition)

    def drop(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._meter.dropped(partition)
        for reader in self._shares.drop(partitions):
            task = asyncio.create_task(reader.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Waits until the readers of lost partitions have ended."""
        if self._closing:
            await asyncio.wait(self._closing)
