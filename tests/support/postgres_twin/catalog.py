"""What a schema contains: tables and views. Servers of many simulated worlds share one catalog and its plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.postgres_twin.syntax import ColumnDefinition, Expression, Query
from tests.support.postgres_twin.values import cast_to


@dataclass(slots=True)
class TableDefinition:
    """A table's columns and keys."""

    name: str
    columns: list[ColumnDefinition]
    indexes: list[tuple[tuple[int, ...], bool]] = field(default_factory=list)
    """Positions of their columns, and whether they are unique."""
    partitioned_by: int | None = None
    checks: list[tuple[str, Expression]] = field(default_factory=list)
    """Constraints by name; a row for which one is false is refused."""
    places: dict[str, int] = field(default_factory=dict)
    stores: list[Callable[[Any], Any]] = field(default_factory=list)
    """Converts a value to the type of its column."""

    def __post_init__(self) -> None:
        self.places = {column.name: place for place, column in enumerate(self.columns)}
        self.stores = [cast_to(column.type) for column in self.columns]

    @property
    def names(self) -> Sequence[str]:
        return [column.name for column in self.columns]


@dataclass(slots=True)
class Catalog:
    """The definitions of one schema."""

    tables: dict[str, TableDefinition] = field(default_factory=dict)
    views: dict[str, Query] = field(default_factory=dict)
    index_names: dict[str, tuple[str, tuple[tuple[int, ...], bool]]] = field(default_factory=dict)
    plans: dict[str, Any] = field(default_factory=dict)
    """Compiled statements by their text."""

    def changed(self) -> Catalog:
        """Returns a copy without plans, for a definition that changes."""
        return Catalog(dict(self.tables), dict(self.views), dict(self.index_names))
