"""Values of an enum that this version does not know: a newer version of Slackwater published them.

Such a value is lost with the item of a list that it is in, for example a pod of a report; the rest of the event is
read. A field that has a default, or may be None, loses its value alone. Where the value stands for the whole event, the
event is lost. Rules of placement count as unread, because a part of them allows other nodes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from slackwater.events.envelope import Payload
from slackwater.model.bounds import MOST_LABELS, MOST_PODS
from slackwater.model.placement_rules import UNKNOWN_VALUES, PlacementRules

_SHOWN: Final = 60
_LOST: Final = object()
"""In place of a value that is lost with what holds it."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value that an enum does not have. `field` is its path in the event without places in lists."""

    field: str
    value: str


Lost = Counter[UnknownValue]
"""How often each was lost."""
Prune = Callable[[Any, Lost], Any]
"""Returns a JSON value, changed in place, without what it loses; `_LOST` if it is lost itself."""


class EventLost(Exception):
    """The value stands for the whole event."""

    def __init__(self, unknown: UnknownValue) -> None:
        super().__init__(unknown.field)
        self.unknown = unknown


def without_unknown(payload: type[Payload], document: Any) -> Lost:
    """Removes from the JSON of an event, in place, what an enum's unknown value loses; returns what was lost. It goes
    through lists of at most MOST_PODS, as models do. Raises EventLost."""
    prune, lost = _of_payload(payload.wire()), Lost()
    if prune is not None and prune(document, lost) is _LOST:
        raise EventLost(list(lost)[-1])
    return lost


@cache
def _of_payload(payload: type[BaseModel]) -> Prune | None:
    return _pruner(payload, "")


def _pruner(kind: Any, field: str) -> Prune | None:
    """None if no enum is in the type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _pruner(kind.__origin__, field)
    if origin is Literal:
        return _names(frozenset(name for name in arguments if isinstance(name, str)), field)
    if origin in (Union, UnionType):
        return _optional([_pruner(part, field) for part in arguments if part is not type(None)])
    if origin in (tuple, list):
        return _items(_pruner(arguments[0], f"{field}[]"))
    if origin is dict:
        return _entries(_pruner(arguments[0], f"{field}[]"), _pruner(arguments[1], f"{field}[]"))
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return _names(frozenset(str(member.value) for member in kind), field)
    if kind is PlacementRules:
        return _rules(_fields(kind, field))
    if dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel):
        return _fields(kind, field)
    return None


def _names(known: frozenset[str], field: str) -> Prune:
    def prune(value: Any, lost: Lost) -> Any:
        if not isinstance(value, str) or value in known:
            return value
        lost[UnknownValue(field, value[:_SHOWN])] += 1
        return _LOST

    return prune


def _optional(alternatives: list[Prune | None]) -> Prune | None:
    """Of a union of several types none is tried: only a decision's input has one, without an enum."""
    (prune, *others) = alternatives
    if prune is None or others:
        return None

    def prune_optional(value: Any, lost: Lost) -> Any:
        kept = None if value is None else prune(value, lost)
        return None if kept is _LOST else kept

    return prune_optional


def _items(prune: Prune | None) -> Prune | None:
    if prune is None:
        return None

    def prune_items(values: Any, lost: Lost) -> Any:
        if not isinstance(values, list) or len(values) > MOST_PODS:  # which is refused
            return values
        return [kept for value in values if (kept := prune(value, lost)) is not _LOST]

    return prune_items


def _entries(key: Prune | None, prune: Prune | None) -> Prune | None:
    if key is None and prune is None:
        return None

    def prune_entries(entries: Any, lost: Lost) -> Any:
        if not isinstance(entries, dict) or len(entries) > MOST_LABELS:
            return entries
        kept = {}
        for name, value in entries.items():
            found = value if prune is None else prune(value, lost)
            if found is not _LOST and (key is None or key(name, lost) is not _LOST):
                kept[name] = found
        return kept

    return prune_entries


def _rules(fields: Prune | None) -> Prune | None:
    if fields is None:
        return None

    def prune_rules(rules: Any, lost: Lost) -> Any:
        before = lost.total()
        pruned = fields(rules, lost)
        if lost.total() == before:
            return pruned
        kept = {name: rules[name] for name in ("local_storage", "claims_volumes") if name in rules}
        return {**kept, "unread": [UNKNOWN_VALUES]}

    return prune_rules


def _fields(shape: type, place: str) -> Prune | None:
    prunes = [
        (name, has_default, prune)
        for name, kind, has_default in _declared(shape)
        if (prune := _pruner(kind, f"{place}.{name}" if place else name)) is not None
    ]
    if not prunes:
        return None

    def prune_fields(value: Any, lost: Lost) -> Any:
        if not isinstance(value, dict):
            return value
        for name, has_default, prune in prunes:
            if name not in value:
                continue
            kept = prune(value[name], lost)
            if kept is not _LOST:
                value[name] = kept
            elif has_default:
                del value[name]
            else:
                return _LOST
        return value

    return prune_fields


def _declared(shape: type) -> Iterator[tuple[str, Any, bool]]:
    """Name, type, and whether the field may be absent."""
    hints: Mapping[str, Any] = get_type_hints(shape, include_extras=True)
    if issubclass(shape, BaseModel):
        for name, field in shape.model_fields.items():
            yield field.alias or name, hints[name], not field.is_required()
        return
    for one in dataclasses.fields(cast(Any, shape)):
        has_default = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
        yield one.name, hints[one.name], has_default
