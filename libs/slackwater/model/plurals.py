"""English singular and plural after a number."""

from __future__ import annotations


def plural(count: float, one: str, many: str = "") -> str:
    """The noun in the form for this number: `node` for 1, `nodes` for any other number."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str = "") -> str:
    """The number with its noun: `1 node`, `2 nodes`, `1 node is`, `2 nodes are`."""
    return f"{count} {plural(count, one, many)}"
