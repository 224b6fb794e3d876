"""Amounts as text, always with their unit: cores, binary units of bytes, seconds, percent."""

from __future__ import annotations

from slackwater.model.quantities import format_memory


def cores(milli: int | float) -> str:
    """Milli-cores as cores without trailing zeros: `600` -> `0.6`, `12000` -> `12`."""
    return f"{milli / 1000:.10g}"


def gibibytes(count: int | float) -> str:
    """Bytes as GiB with at most one decimal: `1.5`, `128`."""
    return f"{count / 2**30:.1f}".removesuffix(".0")


def percent(value: float, digits: int = 1) -> str:
    """A ratio as a percentage with a space before the sign: `12.5 %`."""
    return f"{value * 100:.{digits}f} %"


def seconds(value: float) -> str:
    """A duration with its unit: `12 ms`, `0.35 s`, `4.2 s`, `95 s`."""
    if value < 0.1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.2f} s" if value < 1 else f"{value:.3g} s"


def bare(value: int, unit: str) -> str:
    """Milli-cores as cores without the word, bytes in binary units, anything else unchanged."""
    if unit.startswith("milli"):
        return cores(value)
    return format_memory(value) if unit.startswith("byte") else f"{value} {unit}".strip()


def amount(value: int, unit: str) -> str:
    """As `bare`, always with the unit: `1 core`, `0.6 cores`, `1.5Gi`."""
    if unit.startswith("milli"):
        return f"{cores(value)} core" + ("" if abs(value) == 1000 else "s")
    return bare(value, unit)
