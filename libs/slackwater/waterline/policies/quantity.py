"""Exact quantities, one unit per dimension: cores, bytes, ratios. No notation is rounded."""

from __future__ import annotations

import re
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from slackwater.model.quantities import NUMBER, SUFFIXES, parse_quantity
from slackwater.waterline.registry.metric import Dimension

_ALLOWED: Final = {
    Dimension.CPU: "cores like 4.5 or 4500m",
    Dimension.MEMORY: "bytes like 1000, 512Mi or 1.5G",
    Dimension.RATIO: "a ratio like 0.85, or 85%",
    Dimension.NUMBER: "a number like 50.5 or 5k",
    Dimension.BYTES_PER_SECOND: "bytes per second like 1000, 100Mi or 1.25G",
}
_SHOWN: Final = 80
_SMALL: Final = frozenset({"n", "u", "m"})
_LARGE: Final = frozenset(SUFFIXES) - _SMALL - {""}
_FOREIGN: Final = {
    Dimension.CPU: _LARGE - {"k"},
    Dimension.MEMORY: _SMALL,
    Dimension.RATIO: _LARGE,
    Dimension.BYTES_PER_SECOND: _SMALL,
}
"""Suffixes of another dimension, by dimension: 512m is half a byte rather than half a GiB, and 4Gi
is no number of cores.
"""
_EXPONENT: Final = r"[eE][-+]?[0-9]+"
DECIMAL_NUMBER: Final = rf"{NUMBER}({_EXPONENT})?"
_NUMBER: Final = re.compile(DECIMAL_NUMBER)
_UNITS: Final = "|".join(filter(None, SUFFIXES))
AMOUNT_TEXT: Final = rf"^\s*{NUMBER}({_EXPONENT}|{_UNITS})?\s*$"
QUANTITY_TEXT: Final = rf"^\s*{NUMBER}({_UNITS}|({_EXPONENT})?%?)\s*$"
"""Patterns of texts, for schemas: an amount of a resource, and what may be a ratio as well."""
_EXACTLY: Final = Context(prec=28, traps=[Inexact, InvalidOperation])
"""Arithmetic of decisions; anything that would be rounded is refused instead."""
_LARGEST: Final = Decimal("1e21")
_SMALLEST: Final = Decimal("1e-9")
"""Bounds of plausible values. Compared values travel as floats, which have neither 1e400 nor
1e-400.
"""


def quantity(text: str) -> Decimal:
    """Returns the exact number of a Kubernetes quantity. Raises ValueError."""
    number = parse_quantity(text)
    if number is None:
        shown = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
        raise ValueError(f"{shown} is not a quantity")
    return _in_range(text, number, Decimal(1))


def _suffix_of(text: str) -> str:
    known = sorted(SUFFIXES, key=len, reverse=True)
    return next((name for name in known if name and text.strip().endswith(name)), "")


def foreign_unit(dimension: Dimension, text: str) -> str | None:
    """Returns the error of a quantity in another dimension's unit; None if there is none."""
    suffix = _suffix_of(text)
    if suffix not in _FOREIGN.get(dimension, frozenset()):
        return None
    return f"{text!r} is written in {suffix!r}, which is not a unit of this quantity; allowed: {_ALLOWED[dimension]}"


def _in_range(text: str, number: Decimal, unit: Decimal) -> Decimal:
    """Returns the product; refuses one that would be rounded, or is outside the plausible range."""
    try:
        found = _EXACTLY.multiply(number, unit)
    except DecimalException:
        raise ValueError(f"{text!r} is not a quantity that can be kept exactly; write fewer digits") from None
    if found and not _SMALLEST <= abs(found) <= _LARGEST:
        raise ValueError(f"{text!r} is out of range; write 0 or an amount between {_SMALLEST} and {_LARGEST}")
    return found


def in_unit_of(dimension: Dimension, text: str) -> Decimal:
    """Returns a quantity in milli-cores, bytes or as a ratio. Raises ValueError with the
    allowed notation.
    """
    try:
        if dimension is Dimension.RATIO:
            return percentage(text) if text.strip().endswith("%") else quantity(text)
        found = quantity(text)
        return _in_range(text, found, Decimal(1000)) if dimension is Dimension.CPU else found
    except ValueError as error:
        raise ValueError(f"{error}; allowed: {_ALLOWED[dimension]}") from None


def percentage(text: str) -> Decimal:
    """Returns the ratio of `85%`. Raises ValueError for anything but a non-negative number with one
    sign.
    """
    stripped = text.strip()
    written = stripped.removesuffix("%")
    number = Decimal(written) if _NUMBER.fullmatch(written) else Decimal("NaN")
    if not stripped.endswith("%") or not number.is_finite() or number < 0:
        raise ValueError(f"{text!r} is not a percentage; allowed: a number of 0 or more with one % behind it")
    return _in_range(text, number, Decimal("0.01"))


def _as_written(value: Any) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError("a quantity is a number or a text like 4500m, 1Gi, 0.85 or 85%")
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, Decimal) else value


def text_of(written: str | float) -> str:
    """Returns the shortest text of a number: 0.1 is 0.1."""
    return repr(written) if isinstance(written, float) else str(written)


Written = Annotated[str | int | float, BeforeValidator(_as_written)]
"""A quantity as written, number or text; its dimension is that of its metric."""
Amount = Annotated[Written, Field(json_schema_extra={"pattern": AMOUNT_TEXT})]
"""A quantity of a resource as Kubernetes has it: `85%` is none."""
