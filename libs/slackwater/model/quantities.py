"""Parses and formats quantities: CPU in integer milli-cores, memory in integer bytes.

Accepts Kubernetes quantities: CPU `2`, `0.5`, `1500m`; memory `1Gi`, `512Mi`, `1.5G`, `1000`.
Parsing is exact (decimal, never binary floating point) and rounds up, as the Kubernetes API does.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES, CpuMilliSum, MemoryBytesSum
from slackwater.model.errors import InvalidInput
from slackwater.model.records import record

_BYTE_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
}  # fmt: skip
_SHOWN = 40


@record(frozen=True, slots=True)
class Resources:
    """An amount of CPU (milli-cores) and memory (bytes). A difference may be negative."""

    cpu_milli: CpuMilliSum = 0
    memory_bytes: MemoryBytesSum = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu_milli - other.cpu_milli, self.memory_bytes - other.memory_bytes)

    def at_least_zero(self) -> Resources:
        return Resources(max(0, self.cpu_milli), max(0, self.memory_bytes))

    def larger_of(self, other: Resources) -> Resources:
        """Per resource, the larger of the two."""
        return Resources(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))

    def smaller_of(self, other: Resources) -> Resources:
        """Per resource, the smaller of the two."""
        return Resources(min(self.cpu_milli, other.cpu_milli), min(self.memory_bytes, other.memory_bytes))


def _units(text: str, factor: int, whole: str, field: str, allowed: str, most: int) -> int:
    """The number in `text` times `factor`, rounded up. Raises InvalidInput above `most`, the limit of a machine."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"{field}: {whole!r} is not a quantity; allowed: {allowed}", field=field) from None
    if not number.is_finite() or number < 0:
        raise InvalidInput(f"{field}: {whole!r} must be finite and not negative; allowed: {allowed}", field=field)
    if number > Decimal(most) / factor:
        shown = f"{whole[:_SHOWN]!r}{'…' if len(whole) > _SHOWN else ''}"
        raise InvalidInput(f"{field}: {shown} is more than any machine has ({most}); allowed: {allowed}", field=field)
    return int((number * factor).to_integral_value(ROUND_CEILING))


def parse_cpu_milli(text: str, field: str = "cpu") -> int:
    """Milli-cores of `2`, `0.5` or `1500m`. Raises InvalidInput with `field`."""
    allowed = "cores like 2 or 0.5, milli-cores like 1500m"
    stripped = text.strip()
    if stripped.endswith("m"):
        return _units(stripped[:-1], 1, text, field, allowed, MOST_CPU_MILLI)
    return _units(stripped, 1000, text, field, allowed, MOST_CPU_MILLI)


def parse_memory_bytes(text: str, field: str = "memory") -> int:
    """Bytes of `1Gi`, `1.5G`, `512Mi` or `1000`. Raises InvalidInput with `field`."""
    allowed = "bytes like 1000, or with one of " + " ".join(_BYTE_UNITS)
    stripped = text.strip()
    for suffix, factor in _BYTE_UNITS.items():
        if stripped.endswith(suffix):
            return _units(stripped[: -len(suffix)], factor, text, field, allowed, MOST_MEMORY_BYTES)
    return _units(stripped, 1, text, field, allowed, MOST_MEMORY_BYTES)


def format_cpu(milli: int) -> str:
    """Milli-cores as text: `1500` -> `1.5`, `250` -> `250m`, `-1500` -> `-1.5`."""
    if abs(milli) < 1000 and milli != 0:
        return f"{milli}m"
    return f"{Decimal(milli) / 1000:f}".rstrip("0").rstrip(".") if milli % 1000 else str(milli // 1000)


def format_memory(count: int) -> str:
    """Bytes as text in binary units with at most one decimal: `1610612736` -> `1.5Gi`."""
    for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        factor = _BYTE_UNITS[suffix]
        if abs(count) >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + suffix
    return str(count)
