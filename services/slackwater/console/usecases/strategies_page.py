"""The page of strategies: the documents in effect, their fields, and the source of each value of one node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.strategies import (
    FieldLine,
    NodeStrategy,
    StrategyLine,
    field_lines,
    in_order,
    lines_of,
    node_strategy,
)
from slackwater.console.ports import ReadQueries

_OWN_WORDS = "the node's own annotation or label"
"""How records of offers name what they did not follow (colocation.usecases.record_offer)."""


@dataclass(frozen=True, slots=True)
class StrategiesPage:
    """`/strategies`. `asked` is the selected node, `node` its strategy; `missing` is the reason if there is none."""

    now: datetime
    lines: tuple[StrategyLine, ...]
    fields: tuple[FieldLine, ...]
    asked: str = ""
    node: NodeStrategy | None = None
    missing: str = ""


async def strategies_page(reads: ReadQueries, asked: str, now: datetime) -> StrategiesPage:
    strategies = in_order(await reads.strategies())
    lines, fields = tuple(lines_of(strategies, await reads.followers())), tuple(field_lines(strategies))
    if not asked:
        return StrategiesPage(now, lines, fields)
    node = await reads.node(asked)
    if node is None:
        return StrategiesPage(now, lines, fields, asked, missing=f"There is no node {asked}.")
    if node.offer is None or not node.offer.strategies:
        return StrategiesPage(now, lines, fields, asked, missing=f"No offer of {asked} names a strategy yet.")
    labels = node.facts.labels if node.facts else {}
    annotations = node.facts.annotations if node.facts else {}
    problem = await _problem(reads, asked, now)
    found = node_strategy(strategies, node.offer.strategies, labels, annotations, problem)
    return StrategiesPage(now, lines, fields, asked, found)


async def _problem(reads: ReadQueries, node: str, now: datetime) -> str:
    record = await reads.decision_at(node, "batch-cpu", now)
    refused = [
        alternative
        for alternative in (record.alternatives if record else ())
        if alternative.what.startswith(_OWN_WORDS)
    ]
    return refused[0].rejected_because if refused else ""
