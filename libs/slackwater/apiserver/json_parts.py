"""Parts of an object's JSON. What is missing, or of another type than expected, is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def object_in(item: Json, name: str) -> Json:
    """Returns a member that is an object."""
    value = item.get(name)
    return value if isinstance(value, Mapping) else {}


def items_in(item: Json, name: str) -> Sequence[Json]:
    """Returns the objects of a member that is a list."""
    value = item.get(name)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else ()
