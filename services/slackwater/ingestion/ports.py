"""What the use cases need: one ledger per unit of work, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from slackwater.ingestion.domain.blocks import AgentBlock
from slackwater.ingestion.domain.columns import History
from slackwater.ingestion.domain.reports import HistoryRow, KnownNode, Liveness
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.domain.windowing import Agent, Before
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.nodes import NodeFacts
from slackwater.store.port import UnitOfWork


@dataclass(frozen=True, slots=True)
class PodPresence:
    """When a pod was last in a report, and what was concluded from it."""

    uid: str
    node: str
    last_seen_at: datetime
    liveness: Liveness


class Ledger(Protocol):
    """Inventory and history within one transaction. Methods that return nodes lock them until its end."""

    async def nodes(self, names: Sequence[str]) -> Mapping[str, KnownNode]:
        """Those of the named nodes that are known."""
        ...

    async def describe(self, facts: NodeFacts, boot_epoch: str, described_at: datetime) -> bool:
        """Keep what a node says it is; False when something newer is known."""
        ...

    async def append(self, history: History) -> None:
        """Accepted reports into history, their pods into the inventory. Raises InvalidInput if one cannot be kept."""
        ...

    async def save(self, nodes: Sequence[KnownNode]) -> None:
        """Write back nodes that were locked by this unit of work (all but their description)."""
        ...

    async def count_refusals(self, counts: Mapping[tuple[str, Refusal], int], at: datetime) -> None:
        """Add to the counts per node (by subject) and reason."""
        ...

    async def silent_nodes(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[KnownNode]:
        """Nodes of these partitions not heard of since then and not yet lost."""
        ...

    async def count_by_liveness(self, lost_since: datetime) -> Mapping[str, int]:
        """How many nodes are `fresh`, `stale`, `lost`, or `silent` (described, never reported).

        A lost node whose last report is older than `lost_since` is not counted.
        """
        ...

    async def gone_pods(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[PodPresence]:
        """Pods of these partitions that their nodes no longer report, not seen since then and not yet lost. A pod that
        was in its node's last report is as alive as the node: of it nothing is written while the node is silent."""
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
        """Up to `limit` nodes of these partitions (and only of those named) after this name that may have a window to
        close: a window's length of history behind their mark and no report missing, or a window behind their mark that
        was over at `until` and either such a history or no report since `silent_since`."""
        ...

    async def history(self, nodes: Sequence[str], since: datetime, until: datetime) -> Sequence[HistoryRow]:
        """Accepted reports with since <= midpoint < until."""
        ...

    async def columns_within(self, spans: Mapping[str, tuple[datetime, datetime]]) -> History:
        """The same by columns, with a span (since, until) of its own for each node. A pod is described as it is known
        now; one that was forgotten is left out."""
        ...

    async def before(self, heads: Mapping[Agent, HistoryRow], oldest: datetime) -> Mapping[Agent, Before]:
        """What had come of each agent before this report of it, back to `oldest`."""
        ...

    async def keep_days(self, days: Sequence[date]) -> None:
        """Make room in history for these days (UTC)."""
        ...

    async def forget_before(self, day: date) -> None:
        """Drop the history of all days before `day`, and pods last seen before it."""
        ...


class BlockBook(Protocol):
    """Blocks of agents within one transaction. Every change is kept."""

    async def lock(self) -> None:
        """Let no other transaction change a block until this one ends."""
        ...

    async def last(self, node: str) -> AgentBlock | None:
        """The newest change of a node; None if its agent was never blocked."""
        ...

    async def in_force(self) -> Sequence[AgentBlock]:
        """The newest change of every node whose agent is blocked, by node."""
        ...

    async def append(self, block: AgentBlock) -> None:
        """Add a change, which is the newest of its node from then on."""
        ...


class Meter(Protocol):
    """What operators watch."""

    def accepted(self, late: int, delays_seconds: Iterable[float]) -> None:
        """Reports that went into history, each with its delay since the sample; and how many were late."""
        ...

    def refused(self, reason: str) -> None: ...

    def closed(self, windows: int, missing: int) -> None:
        """Windows, and reports missing from them: sooner nobody can know, for what was in hand elsewhere may come."""
        ...

    def nodes(self, counts: Mapping[str, int]) -> None:
        """The inventory by liveness."""
        ...


Ledgers = Callable[[UnitOfWork], Ledger]
BlockBooks = Callable[[UnitOfWork], BlockBook]
