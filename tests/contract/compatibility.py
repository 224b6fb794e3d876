"""Whether bodies written under an old schema can still be read under a new one, and by old readers the other way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a change of schema breaks, each named by its path; additive optional fields break nothing."""
    return list(_compare("", old, new, old.get("$defs", {}), new.get("$defs", {})))


def _compare(
    path: str, old: dict[str, Any], new: dict[str, Any], olds: dict[str, Any], news: dict[str, Any]
) -> Iterator[str]:
    old, new = _resolved(old, olds), _resolved(new, news)
    if _kinds(old) - _kinds(new):
        yield f"{path or '(body)'}: type was {sorted(_kinds(old))}, is {sorted(_kinds(new))}"
        return
    if gone := set(old.get("enum", [])) - set(new.get("enum", old.get("enum", []))):
        yield f"{path}: values removed: {sorted(gone)}"
    before, after = old.get("properties", {}), new.get("properties", {})
    for name in sorted(before.keys() - after.keys()):
        yield f"{path}.{name}: removed"
    for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
        yield f"{path}.{name}: newly required"
    for name in sorted(before.keys() & after.keys()):
        yield from _compare(f"{path}.{name}", before[name], after[name], olds, news)
    for inner in ("items", "additionalProperties"):
        if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
            yield from _compare(f"{path}[]", old[inner], new[inner], olds, news)


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference; of `X or null` take X, nullness is looked at by _kinds."""
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    options = schema.get("anyOf")
    if not options:
        return schema
    real = [option for option in options if option.get("type") != "null"]
    nullable = len(real) < len(options)
    return {**_resolved(real[0], definitions), "nullable": nullable}


def _kinds(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type", "any")
    kinds = {kind} | ({"integer"} if kind == "number" else set())
    return kinds | ({"null"} if schema.get("nullable") else set())
