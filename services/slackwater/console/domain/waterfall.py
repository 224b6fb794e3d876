"""A decision's terms as rows with running totals, and the check that they add up to the result."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.console.domain.views import WaterfallRow
from slackwater.decisions.record import DecisionRecord


def waterfall_of(record: DecisionRecord) -> tuple[WaterfallRow, ...]:
    """One row per term, in the order of the formula; source and time are those of the term's input."""
    inputs = {entry.name: entry for entry in record.inputs}
    rows: list[WaterfallRow] = []
    total = 0
    for term in record.terms:
        found = inputs.get(term.input or term.name)
        rows.append(
            WaterfallRow(
                name=term.name,
                value=term.value,
                running_before=total,
                running_after=total + term.value,
                note=term.note,
                source=found.source if found else None,
                observed_at=found.observed_at if found else None,
            )
        )
        total += term.value
    return tuple(rows)


def adds_up(rows: Sequence[WaterfallRow], result: int) -> bool:
    """Whether every row starts where the previous one ended and ends after its own value, and the last one ends at the
    result.
    """
    total = 0
    for row in rows:
        if row.running_before != total or row.running_after != total + row.value:
            return False
        total = row.running_after
    return total == result
