"""All nodes, filtered and in pages; those that need attention first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.fleet import FRESH, NodeQuery
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.overview import NodeRow, known_waterline, node_row


@dataclass(frozen=True, slots=True)
class NodeList:
    """`/nodes`: one page; `found` is the total number."""

    now: datetime
    asked: NodeQuery
    found: int
    rows: Sequence[NodeRow]
    waterline: float


async def node_list(reads: ReadQueries, asked: NodeQuery, now: datetime) -> NodeList:
    waterline = await known_waterline(reads)
    found, nodes = await reads.nodes_shown(asked, now - FRESH, waterline)
    return NodeList(now, asked, found, [node_row(node, now, waterline) for node in nodes], waterline)
