"""A field that a document may not have is refused with the closest one, at any depth and of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from slackwater.model.errors import InvalidInput
from slackwater.model.known_fields import FEW, fields_at, unknown_field
from slackwater.resources import catalog
from slackwater.resources.kind import Kind
from slackwater.resources.names import API_VERSION


def _document(kind: Kind) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": {"name": "web"}, "spec": dict(kind.example)}


def _objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Every object in a document with its path."""
    if isinstance(value, Mapping):
        yield path, dict(value)
        for name, inner in value.items():
            yield from _objects(inner, (*path, name))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _objects(inner, (*path, place))


def _with(document: Any, path: tuple[str | int, ...], name: str) -> Any:
    """A copy of the document with one more field in the object at `path`."""
    if not path:
        return {**document, name: "x"}
    first, *rest = path
    if isinstance(document, Mapping):
        return {**document, first: _with(document[first], tuple(rest), name)}
    return [_with(inner, tuple(rest), name) if place == first else inner for place, inner in enumerate(document)]


PLACES = [
    pytest.param(kind, path, name, id=f"{kind.name}:{'.'.join(map(str, path))}")
    for kind in catalog.KINDS
    for path, _ in _objects(_document(kind))
    for name in sorted(fields_at(kind.model_of(), path))[:1]
]


@pytest.mark.parametrize(("kind", "path", "name"), PLACES)
def test_a_misspelt_field_is_refused_with_the_right_one(kind: Kind, path: tuple[str | int, ...], name: str) -> None:
    wrong = f"{name}x"
    with pytest.raises(InvalidInput) as refused:
        kind.model_of().parse(_with(_document(kind), path, wrong))
    assert (refused.value.field or "").endswith(wrong)
    assert f" field; did you mean {name}?" in refused.value.message


def test_every_kind_has_a_place_in_its_metadata_and_spec() -> None:
    paths = {(case.values[0].name, case.values[1]) for case in PLACES}  # type: ignore[union-attr]
    assert {(kind.name, ("metadata",)) for kind in catalog.KINDS} <= paths
    assert ("NodeQOS", ("spec", "rules", 0, "metricRule")) in paths


def test_without_a_close_one_only_a_few_are_listed() -> None:
    many = [f"field{place}" for place in range(FEW + 1)]
    assert unknown_field("qqq", many) == "unknown field"
    assert unknown_field("qqq", many[:2]) == "unknown field; allowed: field0, field1"
    assert unknown_field("FIELD3x", many) == "unknown field; did you mean field3?"
    assert unknown_field("qqq", []) == "unknown field"


class Inner(BaseModel):
    depth: int = 0


class Outer(BaseModel):
    either: int | Inner | None = None
    several: tuple[Inner, ...] = ()
    named: dict[str, list[Inner]] = {}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ((), ["either", "several", "named"]),
        (("either",), ["depth"]),
        (("several", 3), ["depth"]),
        (("named", "a", 0), ["depth"]),
        (("either", "depth"), []),
        (("nowhere", "below"), []),
    ],
)
def test_fields_are_found_through_alternatives_lists_and_maps(path: tuple[str | int, ...], fields: list[str]) -> None:
    assert fields_at(Outer, path) == fields
