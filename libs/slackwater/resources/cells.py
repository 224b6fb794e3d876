"""The text of a cell in a table of documents, from the column that the kind declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.resources.kind import NO_VALUE, Column, text_at


def cell_text(column: Column, document: Mapping[str, Any]) -> str:
    """The text of a document's cell; NO_VALUE also for a document of another shape, as another version stores it."""
    if isinstance(column.path, str):
        return value_text(text_at(column.path, document))
    try:
        return column.path(document)
    except (AttributeError, KeyError, TypeError, ValueError):
        return NO_VALUE


def value_text(value: Any) -> str:
    """The text of a field's value."""
    if value in (None, ""):
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
