"""The fields that a model allows at a path of a document, for messages about one that it does not allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from slackwater.model.close_names import closest

FEW = 6
"""At most so many fields are listed where none is close."""


def unknown_field(name: str, known: Sequence[str]) -> str:
    """The message about a field called `name`: with the closest of the known fields, or with all if they are few."""
    if close := closest(name, known):
        return f"unknown field; did you mean {close}?"
    return f"unknown field; allowed: {', '.join(known)}" if 0 < len(known) <= FEW else "unknown field"


def fields_at(annotation: Any, steps: Sequence[str | int]) -> list[str]:
    """The names that documents use for the fields of the models at this path; empty where it leads to no model."""
    types = list(_alternatives(annotation))
    for step in steps:
        types = [alternative for kind in types for inner in _inside(kind, step) for alternative in _alternatives(inner)]
    models = [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return list(dict.fromkeys(name for model in models for name in _fields(model)))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, without `Annotated`, `| None` and type variables."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for arg in get_args(annotation):
            yield from _alternatives(arg)
    elif not isinstance(annotation, TypeVar):
        yield annotation


def _inside(kind: Any, step: str | int) -> Iterator[Any]:
    """The annotations of what is under one key or index of a value of this type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if step in (field.alias, name):
                yield field.annotation
        return
    arguments = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if arguments and isinstance(step, int):
        yield from arguments
    elif len(arguments) == 2:
        yield arguments[1]
