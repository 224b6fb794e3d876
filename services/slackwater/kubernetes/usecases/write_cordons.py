"""Writes the cordons of ensurance to nodes as a taint, renews it, and removes it when its lease ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.cluster_events import ClusterEvent, node_subject
from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import ClusterNode, is_newer
from slackwater.events.envelope import Event
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.kubernetes.domain.cordon_plan import (
    CordonEffect,
    CordonNews,
    CordonWrite,
    NodeCordonFacts,
    plan_cordons,
)
from slackwater.kubernetes.metrics import CordonMetrics
from slackwater.model.errors import Conflict, NotFound, SlackwaterError
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

GATHER_SECONDS: Final = 0.05
CONFLICT_SECONDS: Final = 0.2
"""The node was written by another meanwhile; the watch shows it within milliseconds."""
REFUSED_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 10.0
"""After this long without the watch showing a write, the node is decided about anyway."""


class WriteCordons:
    """The nodes of the partitions of this replica. `changed` is set whenever planning may have a new result.

    Cordons are decided and recorded by ensurance, so a write has no record of its own. Two replicas that own a node for
    a moment cannot undo each other's writes: each names the version of the node that it has read.
    """

    def __init__(
        self,
        server: ApiServer,
        inventory: Inventory,
        clock: Clock,
        meter: CordonMetrics,
        effect: CordonEffect,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        report: Callable[[ClusterEvent], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._server = server
        self._inventory = inventory
        self._clock = clock
        self._meter = meter
        self._effect = effect
        self._owned = owned
        self._changed = changed
        self._news: dict[str, CordonNews] = {}
        self._waits: dict[str, datetime] = {}
        self._settling: dict[str, tuple[str, datetime]] = {}
        self.refusals: dict[str, str] = {}
        """Why the last write to a node was refused, by node."""

    async def receive(self, event: Event[NodeSchedulingChanged]) -> None:
        """Keep what was published unless something newer is known."""
        told = event.data
        known = self._news.get(told.node)
        if known is None or known.told_at < told.told_at:
            until = told.valid_until if told.closed else None
            self._news[told.node] = CordonNews(told.told_at, until, told.decision_id)
            self._changed.set()

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            await until_due(self._clock, self._changed, await self.write())

    async def write(self) -> datetime | None:
        """Make the writes that are due now; returns when to plan again without news."""
        now = self._clock.now()
        plan = plan_cordons(self._facts(now), self._effect, now)
        for write in plan.writes:
            await self._write(write)
        return now if plan.writes else plan.again_at

    def _facts(self, now: datetime) -> Iterable[NodeCordonFacts]:
        owned = self._owned()
        for node in self._inventory.nodes.values():
            taint, news = node.cordon, self._news.get(node.key)
            if (taint is None and (news is None or news.until is None)) or partition_of(node.key) not in owned:
                continue
            yield NodeCordonFacts(
                node.key, taint, news, self._waits.get(node.key), self._is_settling(node.key, node.version, now)
            )

    def _is_settling(self, node: str, version: str, now: datetime) -> bool:
        written = self._settling.get(node)
        if written is None:
            return False
        if is_newer(written[0], version) and now < written[1]:
            return True
        del self._settling[node]
        return False

    async def _write(self, write: CordonWrite) -> None:
        node = self._inventory.nodes.get(write.node)
        if node is None:
            return
        now = self._clock.now()
        try:
            after = await self._server.set_cordon(node, write.taint)
        except NotFound:
            self._waits[write.node] = now + timedelta(seconds=CONFLICT_SECONDS)  # the watch shows its deletion
        except SlackwaterError as error:
            seconds = CONFLICT_SECONDS if isinstance(error, Conflict) else REFUSED_SECONDS
            self._waits[write.node] = now + timedelta(seconds=seconds)
            self._meter.refused(error.code)
            if not isinstance(error, Conflict):
                self.refusals[write.node] = error.message
                log.warning("cordon refused", node=write.node, reason=error.message)
        else:
            self._waits.pop(write.node, None)
            self.refusals.pop(write.node, None)
            self._settling[write.node] = after.version, self._clock.now() + timedelta(seconds=SETTLE_SECONDS)
            self._inventory.note_written(after)
            self._meter.written("uncordoned" if write.taint is None else "cordoned")
            news = self._news.get(write.node)
            if (write.taint is None) != (node.cordon is None):  # a renewed cordon is no news
                self._report(_event_of(node, write, "" if news is None else news.decision_id))
            log.info(
                "cordon written",
                node=write.node,
                taint="" if write.taint is None else write.taint.value,
                decision_id="" if news is None else news.decision_id,
            )


def _event_of(node: ClusterNode, write: CordonWrite, decision: str) -> ClusterEvent:
    subject = node_subject(node.key, node.uid)
    if write.taint is None:
        return ClusterEvent(subject, "Uncordoned", "Uncordon", "the taint slackwater.io/cordoned was removed")
    why = f": slackwater why decision/{decision}" if decision else ""
    return ClusterEvent(subject, "Cordoned", "Cordon", f"the taint slackwater.io/cordoned was written{why}")
