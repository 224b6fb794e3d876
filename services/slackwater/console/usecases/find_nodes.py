"""Finds nodes that pass filters, by name, one page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.console.domain.views import NodeView
from slackwater.console.ports import ReadQueries


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """An empty field passes everything; all given fields must match. `liveness` has the values of NodeView."""

    pool: str = ""
    liveness: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def passes(self, node: NodeView) -> bool:
        facts = node.facts
        if self.liveness and node.liveness not in self.liveness:
            return False
        if facts is None:
            return not self.pool and not self.labels
        return self.pool in ("", facts.pool) and self.labels.items() <= facts.labels.items()


async def find_nodes(reads: ReadQueries, wanted: NodeFilter, after: str, limit: int) -> tuple[Sequence[NodeView], bool]:
    """At most `limit` nodes with a name after `after`, and whether there are more."""
    nodes = [node for node in await reads.nodes() if node.name > after and wanted.passes(node)]
    return nodes[:limit], len(nodes) > limit
