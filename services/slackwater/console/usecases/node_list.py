"""All nodes, filtered, sorted and in pages; by default those that need attention first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.fleet import FRESH, NodeQuery, shown, state_of
from slackwater.console.domain.policies import NODE_QOS, own_waterlines
from slackwater.console.domain.tables import Heading, SortedTable, sort_rows
from slackwater.console.domain.views import NodeView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.overview import NodeRow, borrowed_of, known_waterline, node_row

_STATES = ("lost", "stale", "unknown", "fresh")


def headings(now: datetime) -> Sequence[Heading[NodeView]]:
    """The columns of the table of nodes. A node that never reported has no usage to sort by."""
    return (
        Heading("name", "Node", lambda node: node.name, numeric=False),
        Heading("state", "State", lambda node: _STATES.index(state_of(node, now)), numeric=False),
        Heading("level", "Water level", _level, numeric=False, descending_first=True),
        Heading("cpu", "CPU used", lambda node: node.usage and node.usage.usage.cpu_milli),
        Heading("cpu-offered", "CPU offered", lambda node: node.offer and node.offer.batch.cpu_milli),
        Heading("cpu-borrowed", "CPU borrowed", _borrowed("cpu_milli")),
        Heading("memory", "Memory used", lambda node: node.usage and node.usage.usage.memory_bytes),
        Heading("memory-offered", "Memory offered", lambda node: node.offer and node.offer.batch.memory_bytes),
        Heading("memory-borrowed", "Memory borrowed", _borrowed("memory_bytes")),
        Heading("pressure", "Pressure", lambda node: node.usage and node.usage.prod_pressure),
        Heading("throttled", "Throttled", lambda node: node.usage and node.usage.throttled_pods),
        Heading("report", "Report", lambda node: node.usage and node.usage.sampled_at, descending_first=True),
    )


def _borrowed(amount: str) -> Callable[[NodeView], int | None]:
    """The sort key of a column of borrowed resources."""
    return lambda node: getattr(borrowed_of(node), amount, None)


def _level(node: NodeView) -> float | None:
    """The CPU utilisation, 0..1; None if it is unknown."""
    if node.usage is None or node.facts is None or not node.facts.capacity.cpu_milli:
        return None
    return node.usage.usage.cpu_milli / node.facts.capacity.cpu_milli


@dataclass(frozen=True, slots=True)
class NodeList:
    """`/nodes`: one page; `found` is the total number."""

    now: datetime
    asked: NodeQuery
    found: int
    rows: Sequence[NodeRow]
    waterline: float | None
    """None: no rule in force has one."""
    own_waterlines: Sequence[tuple[str, float]]
    """Of NodeQOS documents that select nodes."""
    table: SortedTable[NodeView]


async def node_list(reads: ReadQueries, asked: NodeQuery, now: datetime, sort: str = "") -> NodeList:
    """Raises InvalidInput for a column that the table lacks."""
    waterline = await known_waterline(reads)
    columns = headings(now)
    nodes: Sequence[NodeView]
    if sort:
        chosen = [node for node in await reads.nodes() if shown(node, asked, now, waterline)]
        nodes = sort_rows(chosen, columns, sort)[asked.offset : asked.offset + asked.limit]
        found = len(chosen)
    else:
        found, nodes = await reads.nodes_shown(asked, now - FRESH, waterline)
    last = max(1, -(-found // asked.limit))
    table = SortedTable(columns, nodes, found, 1 + asked.offset // asked.limit, last, sort)
    rows = [node_row(node, now, waterline) for node in nodes]
    shown_waterline = waterline if math.isfinite(waterline) else None
    return NodeList(now, asked, found, rows, shown_waterline, own_waterlines(await reads.resources(NODE_QOS)), table)
