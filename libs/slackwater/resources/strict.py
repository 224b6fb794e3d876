"""Values of documents are what they look like: a number is no text, and yes or no is no number. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

_NUMBERS: Final = frozenset({int, float, Decimal})
MOMENT: Final = (
    r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""A moment as Kubernetes writes it (RFC 3339), for the API server too. pydantic alone takes `2` for 1970, and a time
without a zone for one of this machine."""
_MOMENT: Final = re.compile(MOMENT.removesuffix("$") + r"\Z")


def refuse_another_kind(model: type[BaseModel], field: str, value: Any) -> None:
    """Raises PydanticCustomError where pydantic would guess: `true` for the number 1, `"3"` for 3, `"no"` for false,
    `"2"` for a moment. An exact number (Decimal) may be written as a text, as JSON has no other way to keep it."""
    kinds = kinds_of(model, field)
    if datetime in kinds and value is not None and not _is_moment(value):
        raise PydanticCustomError("another_kind", "must be a moment with its zone, such as 2026-11-26T03:45:00Z")
    takes_numbers, takes_truth = bool(kinds & _NUMBERS), bool in kinds
    if not (takes_numbers or takes_truth) or (str in kinds and not isinstance(value, bool)):
        return
    if isinstance(value, bool):
        fits = takes_truth
    elif isinstance(value, str):
        fits = Decimal in kinds
    elif isinstance(value, int | float):
        fits = takes_numbers
    else:
        return  # what is no single value is for pydantic to refuse
    if not fits:
        allowed = "a number" if takes_numbers else "true or false"
        allowed = f"{allowed} or a text" if str in kinds else allowed
        quotes = ", without quotes" if isinstance(value, str) else ""
        raise PydanticCustomError("another_kind", "{said}", {"said": f"must be {allowed}{quotes}"})


def _is_moment(value: object) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return isinstance(value, str) and _MOMENT.match(value) is not None


@cache
def kinds_of(model: type[BaseModel], field: str) -> frozenset[Any]:
    """The types that a field's value may have, whatever stands around them: `Annotated`, `| None`."""
    return frozenset(_kinds(model.model_fields[field].annotation))


def _kinds(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for arg in get_args(annotation):
            yield from _kinds(arg)
    else:
        yield origin or annotation
