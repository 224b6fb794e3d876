"""The part of SQLAlchemy's results that adapters use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from tests.support.postgres_twin.plan import StatementResult


@cache
def _row_class(names: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Returns a tuple class with an attribute for each column."""
    body: dict[str, Any] = {name: property(itemgetter(place)) for place, name in enumerate(names)}
    mapping = property(lambda row: dict(zip(names, row, strict=True)))
    return type("ResultRow", (tuple,), {**body, "_mapping": mapping, "__slots__": ()})


class TwinResult:
    """Rows of one statement."""

    __slots__ = ("_names", "_rows", "rowcount")

    def __init__(self, result: StatementResult) -> None:
        self._names = result.names
        self._rows: Sequence[Any] = result.rows
        if result.rows and result.names:
            self._rows = list(map(_row_class(tuple(result.names)), result.rows))
        self.rowcount = result.count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> Sequence[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        (row,) = self._rows
        return row

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def scalar_one_or_none(self) -> Any:
        return self.one()[0] if self._rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalars(self) -> TwinScalars:
        return TwinScalars([row[0] for row in self._rows])

    def mappings(self) -> TwinMappings:
        return TwinMappings([dict(zip(self._names, row, strict=True)) for row in self._rows])


class TwinScalars(list[Any]):
    """The first column."""

    def all(self) -> list[Any]:
        return self


class TwinMappings(list[Mapping[str, Any]]):
    """Rows by the names of their columns."""

    def all(self) -> list[Mapping[str, Any]]:
        return self

    def first(self) -> Mapping[str, Any] | None:
        return self[0] if self else None
