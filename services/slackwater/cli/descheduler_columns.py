"""Cells of tables of descheduler profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pool(document: Mapping[str, Any]) -> str:
    """The node pool of a profile."""
    return document["spec"].get("nodePool") or "all"


def plugins(document: Mapping[str, Any]) -> str:
    """The plugins of a profile, in their order."""
    spec = document["spec"]
    names = ["LowNodeLoad"] * bool(spec.get("lowNodeLoad")) + [each["name"] for each in spec.get("plugins") or ()]
    return ",".join(names) or "none"
