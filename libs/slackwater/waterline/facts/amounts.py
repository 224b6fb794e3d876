"""Exact amounts: what is measured comes as int or float, what decides is a decimal."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

Number = int | float | Decimal
ZERO: Final = Decimal(0)


def exact(value: Number) -> Decimal:
    """The decimal that a person would write for it: 0.1 stays 0.1, whatever the binary neighbour of it is."""
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value)
