"""Kubernetes quantities: exact parsing, and the canonical text that an API server answers.

Source: k8s.io/apimachinery pkg/api/resource, `Quantity`. The server rewrites what it gets (`12000` becomes `12k`), so
quantities are compared as numbers and written in their canonical form.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

from slackwater.model.bounds import MOST_STORED

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d{1,3}))?"
)
_MOST_DIGITS: Final = 64


def parse_quantity(text: object) -> Decimal | None:
    """The number that a quantity stands for; None if it is none. Numbers of JSON are accepted as the server does."""
    whole = str(text).strip()
    match = _QUANTITY.fullmatch(whole)
    if match is None or isinstance(text, bool) or len(whole) > _MOST_DIGITS:
        return None
    number = Decimal(match["number"])
    if match["exponent"]:
        return number.scaleb(int(match["exponent"]))
    suffix = match["suffix"] or ""
    return number * 2 ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])


def whole_amount(text: object, factor: int = 1) -> int:
    """A quantity times `factor`, rounded up and at most 2^63 - 1, as the API has it; 0 if it is none or negative."""
    number = parse_quantity(text)
    if number is None or number <= 0:
        return 0
    return MOST_STORED if number * factor >= MOST_STORED else int((number * factor).to_integral_value(ROUND_CEILING))


def canonical_quantity(amount: int) -> str:
    """The canonical text of a whole number: with the largest decimal suffix that keeps it whole."""
    for suffix in ("E", "P", "T", "G", "M", "k"):
        if amount and amount % 10 ** _DECIMAL[suffix] == 0:
            return f"{amount // 10 ** _DECIMAL[suffix]}{suffix}"
    return str(amount)


def canonical_bytes(count: int) -> str:
    """The canonical text of a number of bytes: binary suffixes where they keep it whole, else as a whole number."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if count and count % 2 ** _BINARY[suffix] == 0:
            return f"{count >> _BINARY[suffix]}{suffix}"
    return canonical_quantity(count)
