"""Ports of the use cases: the ledger, the block book and the meter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from slackwater.ingestion.domain.blocks import AgentBlock
from slackwater.ingestion.domain.columns import HistoryColumns
from slackwater.ingestion.domain.reports import HistoryRow, KnownNode
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.domain.windowing import Agent, Before
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.nodes import Liveness, NodeFacts
from slackwater.store.port import UnitOfWork


@dataclass(frozen=True, slots=True)
class PodPresence:
    """When a pod was last in a report, and its liveness."""

    uid: str
    node: str
    last_seen_at: datetime
    liveness: Liveness


class UsageLedger(Protocol):
    """Inventory and history within one transaction. Methods that return nodes lock them until the transaction ends."""

    async def nodes(self, names: Sequence[str]) -> Mapping[str, KnownNode]:
        """Returns the named nodes that are known."""
        ...

    async def describe(self, facts: NodeFacts, boot_epoch: str, described_at: datetime) -> bool:
        """Stores a node's description. Returns False if a newer one is stored. One that is newer than the node's
        deletion ends it.
        """
        ...

    async def append(self, history: HistoryColumns) -> None:
        """Appends accepted reports to history and their pods to the inventory. Raises InvalidInput if one cannot be
        stored.
        """
        ...

    async def save(self, nodes: Sequence[KnownNode]) -> None:
        """Writes back nodes that this unit of work has locked, except their descriptions."""
        ...

    async def count_refusals(self, counts: Mapping[tuple[str, Refusal], int], at: datetime) -> None:
        """Adds to the refusal counts per node (by subject) and reason."""
        ...

    async def silent_nodes(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[KnownNode]:
        """Returns nodes of these partitions without a report since then that are not yet lost."""
        ...

    async def count_by_liveness(self, lost_since: datetime) -> Mapping[str, int]:
        """Counts the nodes that are `fresh`, `stale`, `lost`, or `silent` (described, never reported).

        Deleted nodes, and a lost one whose last report is older than `lost_since`, are not counted.
        """
        ...

    async def gone_nodes(
        self, since: datetime, limit: int, partitions: Collection[int] = ALL_PARTITIONS
    ) -> Sequence[KnownNode]:
        """Returns nodes of these partitions that are lost, or were described and never reported, since before then.
        Deleted ones are left out.
        """
        ...

    async def description(self, node: str) -> tuple[NodeFacts, str] | None:
        """Returns the facts and the boot epoch of a node's last description; None if it was never described."""
        ...

    async def gone_pods(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[PodPresence]:
        """Returns pods of these partitions that their nodes no longer report, not seen since then and not yet lost.

        A pod in its node's last report has the liveness of the node, so nothing is written for it while the node is
        silent.
        """
        ...

    async def save_pods(self, pods: Sequence[PodPresence]) -> None: ...

    async def open_nodes(
        self,
        until: datetime,
        silent_since: datetime,
        seconds: int,
        after: str,
        limit: int,
        partitions: Collection[int] = ALL_PARTITIONS,
        among: Sequence[str] | None = None,
    ) -> Sequence[KnownNode]:
        """Returns up to `limit` nodes of these partitions after the name `after` that may have a window to close.

        `among` restricts them to the named nodes. A node qualifies with a window's length of history past its watermark
        and no report missing. It also qualifies with a window past its watermark that was over at `until`, if it has
        such history or no report since `silent_since`.
        """
        ...

    async def history(self, nodes: Sequence[str], since: datetime, until: datetime) -> Sequence[HistoryRow]:
        """Returns accepted reports with since <= midpoint < until."""
        ...

    async def columns_within(self, spans: Mapping[str, tuple[datetime, datetime]]) -> HistoryColumns:
        """Returns accepted reports as columns, with one span (since, until) per node.

        Pods have their present description; pods whose description was deleted are left out.
        """
        ...

    async def before(self, heads: Mapping[Agent, HistoryRow], oldest: datetime) -> Mapping[Agent, Before]:
        """Returns what came of each agent before its given report, back to `oldest`."""
        ...

    async def keep_days(self, days: Sequence[date]) -> None:
        """Creates partitions of history for these days (UTC)."""
        ...

    async def delete_before(self, day: date) -> None:
        """Drops the history of all days before `day`, pods last seen before it, and nodes deleted before it."""
        ...


class BlockBook(Protocol):
    """Blocks of agents within one transaction. Every change is kept."""

    async def lock(self) -> None:
        """Locks blocks against changes by other transactions until this one ends."""
        ...

    async def last(self, node: str) -> AgentBlock | None:
        """Returns the newest change of a node; None if its agent was never blocked."""
        ...

    async def in_force(self) -> Sequence[AgentBlock]:
        """Returns the newest change of every node whose agent is blocked, by node."""
        ...

    async def append(self, block: AgentBlock) -> None:
        """Adds a change, which becomes the newest of its node."""
        ...


Ledgers = Callable[[UnitOfWork], UsageLedger]
BlockBooks = Callable[[UnitOfWork], BlockBook]
