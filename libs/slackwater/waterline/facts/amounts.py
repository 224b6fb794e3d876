"""Exact amounts: measurements are int or float, decisions use decimals."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

Number = int | float | Decimal
ZERO: Final = Decimal(0)


def exact(value: Number) -> Decimal:
    """Returns the shortest decimal of a number: 0.1 stays 0.1, without its binary rounding
    error.
    """
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value)
