"""One structural schema for a kind whose parent document has a model of its own, with CEL rules for what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from slackwater.model.errors import Misconfigured
from slackwater.resources.cel import CelRule
from slackwater.resources.crd.paths import ITEMS, Path, at_path
from slackwater.resources.crd.structural import RULES, Schema, validation

_MERGED: Final = frozenset({"properties", "items", "required", "default", "description", RULES})


def merged_schema(others: Schema, parent: Schema, name: str) -> Schema:
    """A schema of documents of a kind, the parent called `name` and all others.

    A field that only one of them has, or requires, is optional in the schema and a rule of the whole document. A
    default that only one of them has is left out: the service fills it in. Raises Misconfigured where a field has
    different bounds.
    """
    rules: list[CelRule] = []
    made = _merge(others, parent, (), name, rules)
    return {**made, RULES: [*made.get(RULES, ()), *map(validation, rules)]}


def _merge(others: Schema, parent: Schema, path: Path, name: str, rules: list[CelRule]) -> Schema:
    bounds = [{key: value for key, value in one.items() if key not in _MERGED} for one in (others, parent)]
    if bounds[0] != bounds[1]:
        raise Misconfigured(f"{'.'.join(path)}: the schema of {name} has other bounds: {bounds[1]}, not {bounds[0]}")
    made: dict[str, Any] = dict(bounds[0])
    if description := others.get("description") or parent.get("description"):
        made["description"] = description
    if "default" in others and others["default"] == parent.get("default"):
        made["default"] = others["default"]
    if found := [rule for rule in others.get(RULES, ()) if rule in parent.get(RULES, ())]:
        made[RULES] = found
    if "items" in others:
        made["items"] = _merge(others["items"], parent["items"], (*path, ITEMS), name, rules)
    if "properties" in others:
        rules += _rules(others, parent, path, name)
        made["properties"] = {
            field: _field(field, others["properties"], parent["properties"], (*path, field), name, rules)
            for field in {**others["properties"], **parent["properties"]}
        }
        if required := [field for field in others.get("required", ()) if field in parent.get("required", ())]:
            made["required"] = required
    return made


def _field(field: str, others: Schema, parent: Schema, path: Path, name: str, rules: list[CelRule]) -> Schema:
    if field in others and field in parent:
        return _merge(others[field], parent[field], path, name, rules)
    only: Schema = others.get(field) or parent[field]
    return {key: value for key, value in only.items() if key != "default"}


def _rules(others: Schema, parent: Schema, path: Path, name: str) -> Iterator[CelRule]:
    is_parent = f"self.metadata.name == '{name}'"
    is_other = f"self.metadata.name != '{name}'"
    for field in _without(parent["properties"], others["properties"]):
        yield _rule(is_parent, path, f"!has(self.{field})", f"is only for the document {name}", field)
    for field in _without(others["properties"], parent["properties"]):
        yield _rule(is_other, path, f"!has(self.{field})", f"is not for the document {name}", field)
    for field in _without(others.get("required", ()), parent.get("required", ())):
        if field in parent["properties"]:
            yield _rule(is_parent, path, f"has(self.{field})", f"is required, but in {name}", field)
    for field in _without(parent.get("required", ()), others.get("required", ())):
        if field in others["properties"]:
            yield _rule(is_other, path, f"has(self.{field})", f"is required in {name}", field)


def _without(fields: Iterable[str], others: Iterable[str]) -> list[str]:
    return [field for field in fields if field not in set(others)]


def _rule(unless: str, path: Path, expression: str, message: str, field: str) -> CelRule:
    place = ".".join((*path, field)).replace(f".{ITEMS}", "[]")
    return CelRule(f"{unless} || {at_path(path, expression, 'self')}", f"{place} {message}", _simple(path))


def _simple(path: Path) -> str:
    """The field of a rule's message: no path through a list, which differs by item."""
    steps = path[: path.index(ITEMS)] if ITEMS in path else path
    return ".".join(steps)
