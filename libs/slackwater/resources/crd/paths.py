"""CEL about values at a path of a document. Pure."""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str, ...]
"""Steps to a value from the document: names of fields, and ITEMS for each item of a list."""
ITEMS: Final = "[]"
_SELF: Final = re.compile(r"\bself\b")


def at_path(path: Path, expression: str, document: str) -> str:
    """CEL that holds `expression`, about `self`, of each value at a path of `document`. A missing value passes."""
    missing: list[str] = []
    value = document
    for place, step in enumerate(path):
        if step == ITEMS:
            item = f"item{place}" if document == "self" else f"item{place}_of_{document}"
            inner = at_path(path[place + 1 :], expression, item)
            return " || ".join([*missing, f"{value}.all({item}, {inner})"])
        missing.append(f"!has({value}.{step})")
        value = f"{value}.{step}"
    return " || ".join([*missing, f"({_SELF.sub(value, expression)})"])


def shown(path: Path) -> str:
    """As messages name it: spec.rules[].name."""
    return ".".join(path).replace(f".{ITEMS}", "[]")
