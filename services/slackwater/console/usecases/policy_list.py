"""The page of the policies of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.policies import STRATEGY, PolicyRow, degraded_of, policy_state
from slackwater.console.domain.resources import ResourceView
from slackwater.console.domain.strategies import lines_of
from slackwater.console.domain.tables import Heading, SortedTable, TableQuery, arrange
from slackwater.console.ports import ReadQueries
from slackwater.resources import catalog
from slackwater.resources.cells import cell_text
from slackwater.resources.kind import NO_VALUE, Kind

POLICIES: Sequence[Heading[PolicyRow]] = (
    Heading("name", "Name", lambda row: row.view.name, numeric=False),
    Heading("kind", "Kind", lambda row: (row.view.kind, row.view.name), numeric=False),
    Heading("target", "For", lambda row: row.target or None, numeric=False),
    Heading("stage", "Stage", lambda row: row.policy.stage, numeric=False),
    Heading("state", "State", lambda row: row.policy.state, numeric=False),
    Heading("nodes", "Nodes", lambda row: row.nodes),
    Heading("generation", "Generation", lambda row: row.view.generation),
    Heading("changed", "Changed", lambda row: row.view.changed_at, numeric=False, descending_first=True),
)
_TARGETS = ("FOR", "POOL", "NODES", "PODS")
"""Columns of the kinds that say what a document selects."""


@dataclass(frozen=True, slots=True)
class PolicyList:
    """`/policies`; `degraded` are all of them, on any page."""

    now: datetime
    table: SortedTable[PolicyRow]
    degraded: Sequence[PolicyRow]


async def policy_list(reads: ReadQueries, asked: TableQuery, now: datetime) -> PolicyList:
    """Raises InvalidInput."""
    rows = await _rows(reads)
    return PolicyList(now, arrange(rows, POLICIES, asked), degraded_of(rows))


async def _rows(reads: ReadQueries) -> list[PolicyRow]:
    """The policies by kind; in a kind the one for the whole cluster first, then by name."""
    lines = lines_of(await reads.strategies(), await reads.followers())
    strategies = {line.strategy.document: line for line in lines if not line.strategy.gone}
    rows = []
    for kind in catalog.KINDS:
        views = sorted(await reads.resources(kind.name), key=lambda view: view.name != kind.parent)
        for view in views:
            line = strategies.get(view.name) if kind.name == STRATEGY else None
            state = policy_state(view, line.strategy if line else None)
            rows.append(
                PolicyRow(view, kind.plural, kind.service, _target(kind, view), state, line.following if line else None)
            )
    return rows


def _target(kind: Kind, view: ResourceView) -> str:
    """The nodes or pods that the document selects, as the kind's own column says it; empty if it has none."""
    column = next((column for column in kind.columns if column.title in _TARGETS and callable(column.path)), None)
    text = NO_VALUE if column is None else cell_text(column, view.document or {})
    return "" if text == NO_VALUE else text
