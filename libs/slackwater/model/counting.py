"""Numbers before nouns, as people say them."""

from __future__ import annotations


def plural(count: float, one: str, many: str = "") -> str:
    """The noun that follows this number: `plural(1, "node")` is `node`, of any other number `nodes`."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str = "") -> str:
    """The number with its noun: `1 node`, `2 nodes`, `1 node is`, `2 nodes are`."""
    return f"{count} {plural(count, one, many)}"
