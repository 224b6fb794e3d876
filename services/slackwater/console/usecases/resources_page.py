"""The pages of resources: the kinds, the documents of one kind in its declared columns, and one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from slackwater.console.domain.resources import ResourceView
from slackwater.console.ports import ReadQueries
from slackwater.model.errors import NotFound
from slackwater.resources import catalog
from slackwater.resources.cells import cell_text
from slackwater.resources.history import ResourceGeneration, history_of
from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, NO_VALUE, Column, Kind
from slackwater.resources.store import PastGeneration

_OWN_PLACE = frozenset({NAME.path, GENERATION.path, CHANGED_BY.path})
"""Columns that the page shows for every kind."""


@dataclass(frozen=True, slots=True)
class KindLine:
    """A kind in the list, with the number of its documents."""

    kind: Kind
    documents: int


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document in the list of its kind: its values in the kind's columns (None: it has none)."""

    view: ResourceView
    cells: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ResourceList:
    """`/resources` (without a selected kind) and `/resources/KIND`. `total`: documents before the filter."""

    now: datetime
    kinds: tuple[KindLine, ...]
    kind: Kind | None = None
    columns: tuple[Column, ...] = ()
    lines: tuple[DocumentLine, ...] = ()
    total: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """`/resources/KIND/NAME`."""

    now: datetime
    kind: Kind
    view: ResourceView
    text: str
    labels: Mapping[str, str]
    conditions: tuple[Mapping[str, Any], ...]
    history: tuple[ResourceGeneration, ...]


async def resource_list(reads: ReadQueries, now: datetime, plural: str = "", text: str = "") -> ResourceList:
    """Raises NotFound for a kind that is not declared."""
    counts = await reads.resource_counts()
    kinds = tuple(KindLine(kind, counts.get(kind.name, 0)) for kind in catalog.KINDS)
    if not plural:
        return ResourceList(now, kinds)
    kind = _kind_of(plural)
    found = await reads.resources(kind.name)
    shown = [view for view in found if text.lower() in view.name.lower()]
    shown.sort(key=lambda view: view.name != kind.parent)
    columns, lines = _table(kind, shown)
    return ResourceList(now, kinds, kind, columns, lines, len(found), text)


async def resource_page(reads: ReadQueries, now: datetime, plural: str, name: str) -> ResourcePage:
    """Raises NotFound for a kind that is not declared, or a document that was never published."""
    kind = _kind_of(plural)
    generations = await reads.resource_generations(kind.name, name)
    if not generations:
        raise NotFound(f"{kind.noun} {name!r} does not exist")
    newest = generations[0]
    document = newest.document or {}
    kept = [PastGeneration(view.generation, _content(view), view.author, view.changed_at) for view in generations]
    return ResourcePage(
        now=now,
        kind=kind,
        view=newest,
        text=yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True) if document else "",
        labels=_mapping(_mapping(document.get("metadata")).get("labels")),
        conditions=tuple(_mapping(one) for one in _mapping(document.get("status")).get("conditions") or ()),
        history=history_of(kept).items,
    )


def _content(view: ResourceView) -> Mapping[str, Any] | None:
    """The document, None if deleted; empty if it was too large for an event."""
    return None if view.deleted else view.document or {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _kind_of(plural: str) -> Kind:
    kind = next((kind for kind in catalog.KINDS if kind.plural == plural), None)
    if kind is None:
        raise NotFound(f"{plural!r} is no resource kind")
    return kind


def _table(kind: Kind, views: Sequence[ResourceView]) -> tuple[tuple[Column, ...], tuple[DocumentLine, ...]]:
    """The declared columns of stored fields that a document has a value in, and the lines."""
    columns = [column for column in kind.columns if column.is_stored and column.path not in _OWN_PLACE]
    rows = [[cell_text(column, view.document or {}) for column in columns] for view in views]
    used = [place for place in range(len(columns)) if any(row[place] != NO_VALUE for row in rows)]
    lines = tuple(
        DocumentLine(view, tuple(None if row[place] == NO_VALUE else row[place] for place in used))
        for view, row in zip(views, rows, strict=True)
    )
    return tuple(columns[place] for place in used), lines
