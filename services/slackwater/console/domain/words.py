"""Numbers for people: always with their unit, cores rather than milli-cores."""

from __future__ import annotations

from slackwater.model.quantities import format_memory


def cores(milli: int | float) -> str:
    """Milli-cores as cores without trailing zeros: `600` -> `0.6`, `12000` -> `12`."""
    return f"{milli / 1000:.10g}"


def amount(value: int, unit: str) -> str:
    """Milli-cores as cores, bytes in binary units, anything else as it is; always with the unit."""
    if unit.startswith("milli"):
        return f"{cores(value)} cores"
    return format_memory(value) if unit.startswith("byte") else f"{value} {unit}".strip()
