"""Documents of all resource kinds as they were last published, and their generations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

KEPT_GENERATIONS: Final = 20


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One generation of one document; see events.resource_changed."""

    service: str
    kind: str
    name: str
    generation: int
    author: str
    changed_at: datetime
    deleted: bool
    document: Mapping[str, Any] | None


def newest_of(generations: Sequence[ResourceView]) -> list[ResourceView]:
    """The newest generation of each document that is not deleted, by name."""
    newest: dict[tuple[str, str], ResourceView] = {}
    for view in sorted(generations, key=lambda view: view.generation):
        newest[view.kind, view.name] = view
    return sorted((view for view in newest.values() if not view.deleted), key=lambda view: (view.kind, view.name))
