"""The ledger in memory. It passes the same tests as the ledger on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import cast

from tests.support.store import MemoryUnitOfWork

from slackwater.ingestion.domain.columns import HistoryColumns, columns_of, rows_of
from slackwater.ingestion.domain.reports import HistoryRow, KnownNode
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.domain.windowing import Agent, Before
from slackwater.ingestion.ports import Ledgers, PodPresence
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.nodes import Liveness, NodeFacts
from slackwater.store.port import UnitOfWork


@dataclass(slots=True)
class Books:
    """State that outlives a unit of work."""

    nodes: dict[str, KnownNode] = field(default_factory=dict)
    described_at: dict[str, datetime] = field(default_factory=dict)
    facts: dict[str, NodeFacts] = field(default_factory=dict)
    epochs: dict[str, str] = field(default_factory=dict)
    """The boot epoch of each node's description, by node."""
    pods: dict[str, PodPresence] = field(default_factory=dict)
    present: dict[str, frozenset[str]] = field(default_factory=dict)
    """The pods of each node's last report, by node."""
    rows: list[HistoryRow] = field(default_factory=list)
    refusals: Counter[tuple[str, Refusal]] = field(default_factory=Counter)
    days: set[date] = field(default_factory=set)

    def ledgers(self) -> Ledgers:
        return lambda unit: MemoryUsageLedger(self, unit)


class MemoryUsageLedger:
    """Writes take effect when the unit of work commits; reads see the state before it."""

    def __init__(self, books: Books, unit: UnitOfWork) -> None:
        self._books = books
        self._unit = cast(MemoryUnitOfWork, unit)

    def _later(self, effect: Callable[[], None]) -> None:
        self._unit.on_commit(effect)

    async def nodes(self, names: Sequence[str]) -> Mapping[str, KnownNode]:
        return {name: self._books.nodes[name] for name in names if name in self._books.nodes}

    async def describe(self, facts: NodeFacts, boot_epoch: str, described_at: datetime) -> bool:
        self._unit.concerns(facts.name)
        known = self._books.described_at.get(facts.name)
        if known is not None and known > described_at:
            return False

        def write() -> None:
            node = self._books.nodes.get(facts.name, KnownNode(facts.name))
            still = node.deleted_at if node.deleted_at and node.deleted_at >= described_at else None
            self._books.nodes[facts.name] = replace(node, capacity=facts.capacity, deleted_at=still)
            self._books.epochs[facts.name] = boot_epoch
            self._books.described_at[facts.name] = described_at
            self._books.facts[facts.name] = facts

        self._later(write)
        return True

    async def append(self, history: HistoryColumns) -> None:
        rows = rows_of(history)
        self._unit.concerns(*(row.report.node for row in rows))

        def write() -> None:
            self._books.rows.extend(rows)
            for row in rows:
                self._books.present[row.report.node] = frozenset(measured.pod.uid for measured in row.report.pods)
                for measured in row.report.pods:
                    uid = measured.pod.uid
                    self._books.pods[uid] = PodPresence(uid, row.report.node, row.received_at, Liveness.FRESH)

        self._later(write)

    async def save(self, nodes: Sequence[KnownNode]) -> None:
        self._unit.concerns(*(node.name for node in nodes))

        def write() -> None:
            for node in nodes:
                described = self._books.facts.get(node.name)
                capacity = described.capacity if described else node.capacity
                self._books.nodes[node.name] = replace(node, capacity=capacity)

        self._later(write)

    async def count_refusals(self, counts: Mapping[tuple[str, Refusal], int], at: datetime) -> None:
        self._later(lambda: self._books.refusals.update(counts))

    async def refusals(self) -> Mapping[tuple[str, Refusal], int]:
        return dict(self._books.refusals)

    async def silent_nodes(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[KnownNode]:
        return [
            node
            for _, node in sorted(self._books.nodes.items())
            if node.last_report_at and node.last_report_at < since and node.liveness not in (None, Liveness.LOST)
            if partition_of(node.name) in partitions
        ]

    async def count_by_liveness(self, lost_since: datetime) -> Mapping[str, int]:
        return Counter(
            "silent" if node.liveness is None else str(node.liveness)
            for node in self._books.nodes.values()
            if node.deleted_at is None
            if node.liveness is not Liveness.LOST or (node.last_report_at and node.last_report_at >= lost_since)
        )

    async def gone_nodes(
        self, since: datetime, limit: int, partitions: Collection[int] = ALL_PARTITIONS
    ) -> Sequence[KnownNode]:
        def is_gone(node: KnownNode) -> bool:
            if node.last_report_at is None:
                described_at = self._books.described_at.get(node.name)
                return described_at is not None and described_at < since
            return node.liveness is Liveness.LOST and node.last_report_at < since

        nodes = (node for _, node in sorted(self._books.nodes.items()) if node.deleted_at is None)
        return [node for node in nodes if partition_of(node.name) in partitions and is_gone(node)][:limit]

    async def description(self, node: str) -> tuple[NodeFacts, str] | None:
        facts = self._books.facts.get(node)
        return None if facts is None else (facts, self._books.epochs[node])

    async def gone_pods(self, since: datetime, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[PodPresence]:
        gone = (pod for pod in await self.pods() if not self._is_present(pod) and partition_of(pod.node) in partitions)
        return [pod for pod in gone if pod.last_seen_at < since and pod.liveness is not Liveness.LOST]

    def _is_present(self, pod: PodPresence) -> bool:
        return pod.uid in self._books.present.get(pod.node, ())

    async def save_pods(self, pods: Sequence[PodPresence]) -> None:
        self._unit.concerns(*(pod.node for pod in pods))
        self._later(lambda: self._books.pods.update({pod.uid: pod for pod in pods}))

    async def pods(self) -> Sequence[PodPresence]:
        return [self._as_alive_as_its_node(pod) for _, pod in sorted(self._books.pods.items())]

    def _as_alive_as_its_node(self, pod: PodPresence) -> PodPresence:
        node = self._books.nodes.get(pod.node)
        if node is None or node.liveness is None or not self._is_present(pod):
            return pod
        return replace(pod, liveness=node.liveness)

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
        def may_close(node: KnownNode) -> bool:
            if among is not None and node.name not in among:
                return False
            if node.newest_at is None or node.last_report_at is None or partition_of(node.name) not in partitions:
                return False
            if node.closed_until is None:
                return True
            next_mark = node.closed_until + timedelta(seconds=seconds)
            over, full = next_mark <= until, node.newest_at >= next_mark
            silent = node.newest_at >= node.closed_until and node.last_report_at <= silent_since
            return (full and (over or node.hole_from is None)) or (silent and over)

        return [node for name, node in sorted(self._books.nodes.items()) if name > after and may_close(node)][:limit]

    async def history(self, nodes: Sequence[str], since: datetime, until: datetime) -> Sequence[HistoryRow]:
        history = [
            row for row in self._books.rows if row.report.node in nodes and since <= row.report.midpoint_at < until
        ]
        return sorted(history, key=lambda row: (row.report.node, row.report.midpoint_at, row.report.sequence))

    async def columns_within(self, spans: Mapping[str, tuple[datetime, datetime]]) -> HistoryColumns:
        histories = [await self.history([node], since, until) for node, (since, until) in sorted(spans.items())]
        return columns_of([row for history in histories for row in history])

    async def before(self, heads: Mapping[Agent, HistoryRow], oldest: datetime) -> Mapping[Agent, Before]:
        earlier = {}
        for agent, head in heads.items():
            own = [
                row
                for row in self._books.rows
                if (row.report.node, row.report.boot_epoch) == agent
                and row.report.sequence < head.report.sequence
                and row.report.midpoint_at >= oldest
            ]
            newest = max((row.report.sequence for row in own if not row.late), default=None)
            late = sum(row.late and row.report.sequence > (newest or 0) for row in own)
            earlier[agent] = Before(newest, late)
        return earlier

    async def keep_days(self, days: Sequence[date]) -> None:
        self._later(lambda: self._books.days.update(days))

    async def days(self) -> Sequence[date]:
        return sorted(self._books.days)

    async def delete_before(self, day: date) -> None:
        def write() -> None:
            books = self._books
            books.days = {kept for kept in books.days if kept >= day}
            books.rows = [row for row in books.rows if row.report.midpoint_at.date() >= day]
            books.pods = {uid: pod for uid, pod in books.pods.items() if pod.last_seen_at.date() >= day}
            for name, node in list(books.nodes.items()):
                if node.deleted_at is not None and node.deleted_at.date() < day:
                    del books.nodes[name]

        self._later(write)
