"""Renders amounts of a resource for the notes of records."""

from __future__ import annotations

from slackwater.model.quantities import format_memory


def amount_text(value: int, resource: str) -> str:
    """Returns `0.32 cores` for `cpu`, `512Mi` for `memory`."""
    if resource == "memory":
        return format_memory(value)
    return f"{value / 1000:.10g} core" + ("" if abs(value) == 1000 else "s")
