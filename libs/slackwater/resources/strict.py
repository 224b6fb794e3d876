"""Values of documents are what they look like: a number is no text, and yes or no is no number. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

_NUMBERS: Final = frozenset({int, float, Decimal})


def refuse_another_kind(model: type[BaseModel], field: str, value: Any) -> None:
    """Raises PydanticCustomError where pydantic would guess: `true` for the number 1, `"3"` for 3, `"no"` for false.
    An exact number (Decimal) may be written as a text, as JSON has no other way to keep it."""
    kinds = kinds_of(model, field)
    takes_numbers, takes_truth = bool(kinds & _NUMBERS), bool in kinds
    if str in kinds or not (takes_numbers or takes_truth):
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
        quotes = ", without quotes" if isinstance(value, str) else ""
        raise PydanticCustomError("another_kind", "{said}", {"said": f"must be {allowed}{quotes}"})


@cache
def kinds_of(model: type[BaseModel], field: str) -> frozenset[Any]:
    """The types that a field's value may have, whatever stands around them: `Annotated`, `| None`."""
    return frozenset(_kinds(model.model_fields[field].annotation))


def _kinds(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _kinds(each)
    else:
        yield origin or annotation
