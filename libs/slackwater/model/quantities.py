"""Parses and formats quantities: CPU in integer milli-cores, memory in integer bytes.

The one parser of Kubernetes' notation: fractions, exponents (`1e3`), the decimal suffixes n, u, m, k, M, G, T, P, E and
the binary ones Ki to Ei. Parsing is exact (decimal, never binary floating point); amounts round up, as the API's do.
Source: k8s.io/apimachinery pkg/api/resource, `Quantity`. The server rewrites what it gets (`12000` becomes `12k`), so
quantities are compared as numbers and written in their canonical form.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Final

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES, MOST_STORED, CpuMilliSum, MemoryBytesSum
from slackwater.model.errors import InvalidInput
from slackwater.model.records import record

SUFFIXES: Final = MappingProxyType(
    {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)}
    | {suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)}
    | {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
)
"""The factor of each suffix of Kubernetes."""
NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_QUANTITY: Final = re.compile(rf"({NUMBER})(?:([KMGTPE]i|[numkMGTPE])|([eE][+-]?[0-9]+))?")
_EXACT: Final = Context(prec=128, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Enough digits for the longest quantity times the largest suffix; of longer texts only the size is compared."""
_MOST_CHARACTERS: Final = 64
_MOST_EXPONENT: Final = 999
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


def parse_quantity(text: object) -> Decimal | None:
    """The number that a quantity stands for; None if it is none. Numbers of JSON are accepted as the server does."""
    whole = str(text).strip()
    if isinstance(text, bool) or len(whole) > _MOST_CHARACTERS:
        return None
    number = _number(whole)
    return number if number is not None and abs(number.adjusted()) <= _MOST_EXPONENT else None


def _number(text: str) -> Decimal | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    try:
        return _EXACT.multiply(Decimal(number + (exponent or "")), SUFFIXES[suffix or ""])
    except InvalidOperation:  # an exponent that no decimal has
        return None


def whole_amount(text: object, factor: int = 1) -> int:
    """A quantity times `factor`, rounded up and at most 2^63 - 1, as the API has it; 0 if it is none or negative."""
    number = parse_quantity(text)
    if number is None or number <= 0:
        return 0
    return MOST_STORED if number * factor >= MOST_STORED else _rounded_up(number, factor)


def _rounded_up(number: Decimal, factor: int) -> int:
    return int(_EXACT.multiply(number, Decimal(factor)).to_integral_value(ROUND_CEILING, _EXACT))


def _units(text: str, factor: int, field: str, allowed: str, most: int, *, capped: bool) -> int:
    """The quantity times `factor`, rounded up. Above `most`, the limit of a machine, it is that if `capped`, or raises
    InvalidInput."""
    number = _number(text.strip())
    shown = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
    if number is None:
        raise InvalidInput(f"{field}: {shown} is not a quantity; allowed: {allowed}", field=field)
    if number < 0:
        raise InvalidInput(f"{field}: {shown} must not be negative; allowed: {allowed}", field=field)
    if number > Decimal(most) / factor:
        if capped and number.adjusted() <= _MOST_EXPONENT:
            return most
        raise InvalidInput(
            f"{field}: {shown} is more than any machine has ({most // factor}); allowed: {allowed}", field=field
        )
    return _rounded_up(number, factor)


def parse_cpu_milli(text: str, field: str = "cpu", *, capped: bool = False) -> int:
    """Milli-cores of `2`, `0.5` or `1500m`; `capped`: at most what a machine has. Raises InvalidInput with `field`."""
    return _units(text, 1000, field, "cores like 2 or 0.5, milli-cores like 1500m", MOST_CPU_MILLI, capped=capped)


def parse_memory_bytes(text: str, field: str = "memory", *, capped: bool = False) -> int:
    """Bytes of `1Gi`, `1.5G`, `512Mi` or `1000`; `capped`: at most what a machine has. Raises InvalidInput with
    `field`."""
    allowed = f"bytes like 1000, or with one of {' '.join(filter(None, SUFFIXES))}"
    return _units(text, 1, field, allowed, MOST_MEMORY_BYTES, capped=capped)


def canonical_quantity(amount: int) -> str:
    """The canonical text of a whole number: with the largest decimal suffix that keeps it whole."""
    for suffix in ("E", "P", "T", "G", "M", "k"):
        if amount and amount % int(SUFFIXES[suffix]) == 0:
            return f"{amount // int(SUFFIXES[suffix])}{suffix}"
    return str(amount)


def canonical_bytes(count: int) -> str:
    """The canonical text of a number of bytes: binary suffixes where they keep it whole, else as a whole number."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if count and count % int(SUFFIXES[suffix]) == 0:
            return f"{count // int(SUFFIXES[suffix])}{suffix}"
    return canonical_quantity(count)


def format_cpu(milli: int) -> str:
    """Milli-cores as text: `1500` -> `1.5`, `250` -> `250m`, `-1500` -> `-1.5`."""
    if abs(milli) < 1000 and milli != 0:
        return f"{milli}m"
    return f"{Decimal(milli) / 1000:f}".rstrip("0").rstrip(".") if milli % 1000 else str(milli // 1000)


def format_cores(milli: int) -> str:
    """Milli-cores as cores, whatever their size, so that a column has one unit: `1500` -> `1.5`, `250` -> `0.25`."""
    return f"{milli / 1000:.10g}"


def format_memory(count: int) -> str:
    """Bytes as text in binary units with at most one decimal: `1610612736` -> `1.5Gi`."""
    for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        factor = int(SUFFIXES[suffix])
        if abs(count) >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + suffix
    return str(count)
