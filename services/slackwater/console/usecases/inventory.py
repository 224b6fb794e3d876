"""The pages of pods, workloads and pools: filtered, sorted and in pages. Amounts are as last reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.fleet import FRESH
from slackwater.console.domain.pools import PoolRow
from slackwater.console.domain.tables import Heading, SortedTable, TableQuery, arrange
from slackwater.console.domain.views import PodView
from slackwater.console.domain.workloads import WorkloadView, workloads_of
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.overview import known_waterline


@dataclass(frozen=True, slots=True)
class PodQuery:
    """An empty field selects everything; `text` is part of a pod's or workload's name."""

    text: str = ""
    tier: str = ""
    node: str = ""
    pool: str = ""
    namespace: str = ""
    workload: str = ""
    throttled: bool = False

    @property
    def is_filtered(self) -> bool:
        return self != PodQuery()

    def selects(self, pod: PodView) -> bool:
        """Whether the query selects the pod, apart from its pool."""
        text = self.text.lower()
        return (
            (text in pod.name.lower() or text in pod.workload.lower())
            and self.tier in ("", pod.tier)
            and self.node in ("", pod.node)
            and self.namespace in ("", pod.namespace)
            and self.workload in ("", pod.workload)
            and (pod.throttled or not self.throttled)
        )


PODS: Sequence[Heading[PodView]] = (
    Heading("name", "Pod", lambda pod: (pod.name, pod.namespace), numeric=False),
    Heading("workload", "Workload", lambda pod: (pod.workload, pod.namespace), numeric=False),
    Heading("node", "Node", lambda pod: pod.node, numeric=False),
    Heading("tier", "Tier", lambda pod: -pod.priority, numeric=False),
    Heading("started", "Started", lambda pod: pod.started_at),
    Heading("cpu", "CPU used", lambda pod: pod.usage.cpu_milli),
    Heading("cpu-request", "CPU requested", lambda pod: pod.request.cpu_milli),
    Heading("memory", "Memory used", lambda pod: pod.usage.memory_bytes),
    Heading("memory-request", "Memory requested", lambda pod: pod.request.memory_bytes),
    Heading("limit", "CPU limit", lambda pod: pod.cpu_limit_milli),
    Heading("pressure", "CPU pressure", lambda pod: pod.cpu_pressure),
)
WORKLOADS: Sequence[Heading[WorkloadView]] = (
    Heading("name", "Workload", lambda row: (row.name, row.namespace), numeric=False),
    Heading("tier", "Tier", lambda row: row.tier, numeric=False),
    Heading("pods", "Pods", lambda row: row.pods),
    Heading("nodes", "Nodes", lambda row: row.nodes),
    Heading("throttled", "Throttled pods", lambda row: row.throttled_pods),
    Heading("cpu", "CPU used", lambda row: row.usage.cpu_milli),
    Heading("cpu-request", "CPU requested", lambda row: row.request.cpu_milli),
    Heading("memory", "Memory used", lambda row: row.usage.memory_bytes),
    Heading("memory-request", "Memory requested", lambda row: row.request.memory_bytes),
    Heading("pressure", "Highest CPU pressure", lambda row: row.cpu_pressure),
)
POOLS: Sequence[Heading[PoolRow]] = (
    Heading("pool", "Pool", lambda row: row.pool, numeric=False),
    Heading("nodes", "Nodes reporting", lambda row: row.fresh),
    Heading("above", "Above waterline", lambda row: row.above),
    Heading("throttled", "Throttled pods", lambda row: row.throttled_pods),
    Heading("degraded", "Degraded offers", lambda row: row.degraded),
    Heading("cpu", "CPU used", lambda row: row.used.cpu_milli),
    Heading("cpu-expected", "CPU prod peak", lambda row: row.expected.cpu_milli),
    Heading("cpu-offered", "CPU offered", lambda row: row.batch.cpu_milli + row.mid.cpu_milli),
    Heading("cpu-borrowed", "CPU borrowed", lambda row: row.borrowed.cpu_milli),
    Heading("memory", "Memory used", lambda row: row.used.memory_bytes),
    Heading("memory-expected", "Memory prod peak", lambda row: row.expected.memory_bytes),
    Heading("memory-offered", "Memory offered", lambda row: row.batch.memory_bytes + row.mid.memory_bytes),
    Heading("memory-borrowed", "Memory borrowed", lambda row: row.borrowed.memory_bytes),
)


@dataclass(frozen=True, slots=True)
class PodList:
    """`/pods`; `known` is the number of pods before the filter."""

    now: datetime
    asked: PodQuery
    table: SortedTable[PodView]
    known: int


@dataclass(frozen=True, slots=True)
class WorkloadList:
    """`/workloads`; `known` is the number of pods before the filter."""

    now: datetime
    asked: PodQuery
    table: SortedTable[WorkloadView]
    known: int


@dataclass(frozen=True, slots=True)
class PoolTable:
    """`/pools`."""

    now: datetime
    table: SortedTable[PoolRow]


async def pod_list(reads: ReadQueries, asked: PodQuery, table: TableQuery, now: datetime) -> PodList:
    """Raises InvalidInput."""
    pods, known = await _selected(reads, asked)
    return PodList(now, asked, arrange(pods, PODS, table), known)


async def workload_list(reads: ReadQueries, asked: PodQuery, table: TableQuery, now: datetime) -> WorkloadList:
    """Raises InvalidInput."""
    pods, known = await _selected(reads, asked)
    return WorkloadList(now, asked, arrange(workloads_of(pods), WORKLOADS, table), known)


async def pool_list(reads: ReadQueries, table: TableQuery, now: datetime) -> PoolTable:
    """Raises InvalidInput."""
    rows = await reads.pools(now - FRESH, await known_waterline(reads))
    return PoolTable(now, arrange(rows, POOLS, table))


async def _selected(reads: ReadQueries, asked: PodQuery) -> tuple[list[PodView], int]:
    """The pods that the query selects, and the number of all."""
    pods = await reads.pods(asked.node or None)
    chosen = [pod for pod in pods if asked.selects(pod)]
    if asked.pool:
        nodes = {node.name for node in await reads.nodes() if node.facts and node.facts.pool == asked.pool}
        chosen = [pod for pod in chosen if pod.node in nodes]
    return chosen, len(pods)
