"""Deletes nodes that are gone: on an operator's request, or after a time without reports. A report brings one back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slackwater.events.envelope import Event, event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.ingestion.domain.reports import KnownNode
from slackwater.ingestion.ports import Ledgers, UsageLedger
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.nodes import Liveness
from slackwater.model.time import Clock
from slackwater.store.port import Database, UnitOfWork

SOURCE = "ingestion"
AT_ONCE = 100
"""Nodes per transaction: an autoscaler removes some, the end of a cluster all."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A node as it was deleted, or as it would be in a dry run."""

    node: str
    deleted_at: datetime
    last_report_at: datetime | None


class DeleteNodes:
    """Deletes a node on request. The database is not fenced, so any replica accepts any node."""

    def __init__(self, database: Database, ledgers: Ledgers, clock: Clock, lost_seconds: float) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._lost_seconds = lost_seconds

    async def __call__(self, name: str, by: str, *, dry_run: bool = False) -> Deletion:
        """Raises NotFound for an unknown node, Conflict for one that is not lost, and Unavailable."""
        now = self._clock.now()
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            node = (await ledger.nodes([name])).get(name)
            if node is None or node.deleted_at is not None:
                raise NotFound(
                    f"node {name!r} is not known; `slackwater get nodes` lists those that are", code="node_not_found"
                )
            if node.liveness not in (None, Liveness.LOST):
                raise Conflict(self._still_reports(node, now), code="node_reports")
            if not dry_run:
                await _delete(unit, ledger, node, DeletionReason.OPERATOR, by, now)
        return Deletion(name, now, node.last_report_at)

    def _still_reports(self, node: KnownNode, now: datetime) -> str:
        assert node.last_report_at is not None  # noqa: S101 - without a report there is no liveness
        seconds = (now - node.last_report_at).total_seconds()
        return (
            f"node {node.name} reported {seconds:.0f} s ago, and would come back with its next report; stop its agent"
            f" first: {self._lost_seconds:.0f} s after the last report it is lost, and can be deleted"
        )


class ExpireNodes:
    """Deletes nodes that have been lost, or described and silent, for `gone_for`."""

    def __init__(
        self,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        mine: Callable[[], Collection[int]],
        gone_for: timedelta,
    ) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._mine = mine
        self._gone_for = gone_for

    async def __call__(self) -> int:
        """Returns how many nodes expired. Raises Unavailable, Fenced."""
        now, partitions = self._clock.now(), self._mine()
        if not partitions:
            return 0
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            gone = await ledger.gone_nodes(now - self._gone_for, AT_ONCE, partitions)
            for node in gone:
                await _delete(unit, ledger, node, DeletionReason.EXPIRED, SOURCE, now)
        return len(gone)


async def _delete(
    unit: UnitOfWork, ledger: UsageLedger, node: KnownNode, reason: DeletionReason, by: str, now: datetime
) -> None:
    """Without a liveness the node is not counted, and its next report makes it fresh."""
    await ledger.save([replace(node, liveness=None, deleted_at=now)])
    deleted = NodeDeleted(
        node=node.name, reason=reason, deleted_by=by, deleted_at=now, last_report_at=node.last_report_at
    )
    await unit.publish(event_of(deleted, source=SOURCE, time=now))


async def described_again(ledger: UsageLedger, node: str, now: datetime) -> Event[NodeDescribed] | None:
    """Builds the description of a node that is back after its deletion, because services have dropped it and its agent
    describes it at its start only. None if it was never described.
    """
    known = await ledger.description(node)
    if known is None:
        return None
    facts, boot_epoch = known
    return event_of(NodeDescribed(facts=facts, boot_epoch=boot_epoch, described_at=now), source=SOURCE, time=now)
