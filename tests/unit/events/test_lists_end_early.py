"""Of every event and document, each list ends at its first invalid item: the errors of a message stay few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.resources.catalog import KINDS

MODELS: dict[str, type[BaseModel]] = {payload.__name__: payload for payload in (*EVENTS, *BROADCASTS)}
MODELS |= {model.__name__: model for kind in KINDS for model in (kind.model_of(), kind.model_of(kind.parent))}
FREE_FORM = "pydantic.types.JsonValue"
"""Its items are never invalid."""


def patient_lists(schema: Any, place: str = "") -> Iterator[str]:
    """Lists that collect the errors of all their items, by their place."""
    if isinstance(schema, dict):
        if FREE_FORM in str(schema.get("ref", "")):
            return
        if schema.get("type") in ("list", "tuple", "set", "frozenset") and not schema.get("fail_fast"):
            yield place
        for key, part in schema.items():
            if key != "metadata":
                yield from patient_lists(part, f"{place}.{key}")
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from patient_lists(part, place)


@pytest.mark.parametrize("name", MODELS)
def test_each_list_ends_at_its_first_invalid_item(name: str) -> None:
    assert list(patient_lists(MODELS[name].__pydantic_core_schema__)) == []


def test_a_patient_list_is_found() -> None:
    class Item(BaseModel):
        number: int

    class Patient(BaseModel):
        items: list[Item]

    assert list(patient_lists(Patient.__pydantic_core_schema__))
    with pytest.raises(ValidationError) as refusal:
        Patient(items=[{}, {}])  # type: ignore[list-item]  # the point
    assert refusal.value.error_count() == 2
