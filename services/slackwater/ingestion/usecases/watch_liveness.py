"""Marks nodes and pods as stale or lost, on a timer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta

from slackwater.ingestion.domain.liveness import LivenessLimits, after_silence
from slackwater.ingestion.ports import Ledgers
from slackwater.ingestion.usecases.accept_reports import liveness_changed
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.nodes import Liveness
from slackwater.model.time import Clock
from slackwater.store.port import Database


class WatchLiveness:
    """Lowers liveness of silent nodes; only a report raises it (accept_reports). Changes go through the outbox.

    `hearing` returns whether reports can arrive now: while the bus is unavailable, silence does not count.
    `received_until` returns the time up to which reports of a partition have been received (usecases/consumer_lag): a
    report that waits in the stream is not silence.
    """

    def __init__(
        self,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        limits: LivenessLimits,
        hearing: Callable[[], Awaitable[bool]],
        mine: Callable[[], Collection[int]] = lambda: ALL_PARTITIONS,
        received_until: Callable[[int], datetime] | None = None,
    ) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._mine = mine
        self._received_until = received_until or (lambda _: clock.now())
        self._limits = limits
        self._hearing = hearing
        self._listening_since = clock.now()

    def listen_anew(self, after_seconds: float = 0.0) -> None:
        """Counts silence from now, or `after_seconds` later, because reports could not be received before."""
        listening_from = self._clock.now() + timedelta(seconds=after_seconds)
        self._listening_since = max(self._listening_since, listening_from)

    async def __call__(self) -> int:
        """Returns how many nodes and pods changed. Raises Unavailable."""
        now = self._clock.now()
        partitions = self._mine()
        if not partitions or now - self._listening_since <= timedelta(seconds=self._limits.stale_seconds):
            return 0
        read_until = {partition: self._received_until(partition) for partition in partitions}
        since = max(read_until.values()) - timedelta(seconds=self._limits.stale_seconds)
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            changed = []
            silent = await ledger.silent_nodes(since, partitions)
            if silent and not await self._hearing():
                self.listen_anew()
                return 0
            for node in silent:
                assert node.last_report_at is not None  # noqa: S101 - a silent node has reported at least once
                liveness = self._worse(node.liveness, node.last_report_at, read_until[partition_of(node.name)])
                if liveness is not node.liveness:
                    changed.append(replace(node, liveness=liveness))
                    await unit.publish(liveness_changed(changed[-1], node.liveness, now))
            await ledger.save(changed)
            pods = [
                replace(pod, liveness=worse)
                for pod in await ledger.gone_pods(since, partitions)
                if (worse := self._worse(pod.liveness, pod.last_seen_at, read_until[partition_of(pod.node)]))
                is not pod.liveness
            ]
            await ledger.save_pods(pods)
        return len(changed) + len(pods)

    def _worse(self, liveness: Liveness | None, last_seen_at: datetime, received_until: datetime) -> Liveness:
        return after_silence(liveness, last_seen_at, received_until, self._limits, self._listening_since)
