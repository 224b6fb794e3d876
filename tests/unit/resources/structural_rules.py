"""The rules of structural schemas, as k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PRESERVE = "x-kubernetes-preserve-unknown-fields"
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})
KNOWN = frozenset(
    {
        *(
            "type",
            "description",
            "default",
            "enum",
            "format",
            "pattern",
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
        ),
        *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "maxProperties", "required"),
        *("properties", "additionalProperties", "items", PRESERVE, "x-kubernetes-validations"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    }
)
"""What structural schemas may have and ours use: no $ref, anyOf, oneOf, allOf, const, title, patternProperties."""


def violations(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """A line for each rule that a schema breaks."""
    if unknown := schema.keys() - KNOWN:
        yield f"{place}: {sorted(unknown)} is not structural"
    yield from (f"{place}: {line}" for line in (*_of_types(schema), *_of_fields(schema)))
    for step, inner in _below(schema):
        if isinstance(inner, Mapping):
            yield from violations(inner, f"{place}{step}")
        else:
            yield f"{place}{step}: {inner} is no schema"


def _of_types(schema: Mapping[str, Any]) -> Iterator[str]:
    kind = schema.get("type")
    if kind is None and not schema.get(PRESERVE):
        yield "has no type"
    if kind is not None and kind not in TYPES:
        yield f"type {kind!r}"
    if kind == "array" and "items" not in schema:
        yield "a list without items"
    for name in ("exclusiveMinimum", "exclusiveMaximum"):
        if name in schema and schema[name] is not True:
            yield f"{name} is a flag"


def _of_fields(schema: Mapping[str, Any]) -> Iterator[str]:
    if "properties" in schema and "additionalProperties" in schema:
        yield "properties and additionalProperties exclude each other"
    if missing := set(schema.get("required", ())) - schema.get("properties", {}).keys():
        yield f"requires {sorted(missing)}, which it does not declare"
    if schema.get("x-kubernetes-list-type") == "map":
        (key,) = schema["x-kubernetes-list-map-keys"]
        if key not in schema["items"].get("required", ()):
            yield f"the key {key} of a list map must be required or have a default"


def _below(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((f".{name}", field) for name, field in schema.get("properties", {}).items())
    if "items" in schema:
        yield "[]", schema["items"]
    if "additionalProperties" in schema:
        yield ".*", schema["additionalProperties"]
