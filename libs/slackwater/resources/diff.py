"""What differs between two documents, field by field. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

_BY_THE_SERVER = frozenset({"metadata.generation", "metadata.changedBy"})


class FieldChange(BaseModel):
    """One field, such as `spec.rules.0.name`, with its value before and after; null where there is none."""

    model_config = ConfigDict(frozen=True)

    field: str
    before: Any = None
    after: Any = None


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Every leaf that differs, sorted by its name; what the server writes (_BY_THE_SERVER) is left out."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    names = sorted((old.keys() | new.keys()) - _BY_THE_SERVER)
    return tuple(
        FieldChange(field=name, before=old.get(name), after=new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    )


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        items = [(str(name), each) for name, each in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = [(str(index), each) for index, each in enumerate(value)]
    else:
        return [(path, value)]
    return [leaf for name, each in items for leaf in _leaves(each, f"{path}.{name}" if path else name)]
