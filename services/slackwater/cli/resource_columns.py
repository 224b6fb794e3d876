"""Resources as `get` and `describe` print them, from the columns that the catalog of kinds declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from slackwater.cli.output import UNKNOWN, Item, TableColumn
from slackwater.cli.policy_columns import policy_lines
from slackwater.cli.strategy_columns import strategy_lines
from slackwater.resources.cells import cell_text
from slackwater.resources.kind import Kind
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY


def columns_of(kind: Kind) -> tuple[TableColumn, ...]:
    """The columns of a kind's table."""
    return tuple(
        TableColumn(
            column.title,
            partial(cell_text, column),
            right=column.type in ("integer", "number"),
            wide=column.priority > 0,
        )
        for column in kind.columns
    )


def lines_of(kind: Kind) -> Callable[[Item], list[str]]:
    """A function from a document to the lines that `describe` prints."""
    return _DESCRIBED.get(kind.name, document_lines)


def document_lines(document: Item) -> list[str]:
    """All fields of a document, one per line."""
    metadata = document["metadata"]
    lines = [
        f"Name:        {metadata['name']}",
        f"Kind:        {document['kind']}",
        f"Generation:  {metadata['generation']}",
        f"Changed by:  {metadata.get('changedBy') or UNKNOWN}",
        "Spec:",
    ]
    lines += _tree(document["spec"], "  ")
    return lines + (["Status:", *_tree(document["status"], "  ")] if document.get("status") else [])


def _tree(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict):
        return [line for name, each in value.items() for line in _field(f"{name}:", each, indent)]
    return [line for each in value for line in _field("-", each, indent)]


def _field(title: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [f"{indent}{title}", *_tree(value, indent + "  ")]
    return [f"{indent}{title} {'none' if value in (None, {}, []) else value}"]


_DESCRIBED: Mapping[str, Callable[[Item], list[str]]] = {
    COLOCATION_STRATEGY.name: strategy_lines,
    PREDICT_POLICY.name: policy_lines,
}
"""The lines of `describe` by kind; of other kinds every field has a line."""
