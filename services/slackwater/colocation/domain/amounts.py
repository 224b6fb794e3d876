"""Amounts of a resource for people, as notes of records have them."""

from __future__ import annotations

from slackwater.model.quantities import format_memory


def said(value: int, resource: str) -> str:
    """`0.32 cores` of `cpu`, `512Mi` of `memory`."""
    if resource == "memory":
        return format_memory(value)
    return f"{value / 1000:.10g} core" + ("" if abs(value) == 1000 else "s")
