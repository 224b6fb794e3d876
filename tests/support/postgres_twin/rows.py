"""Tables in memory. A row has its committed values and at most one uncommitted change, as a row lock requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

from tests.support.postgres_twin.catalog import TableDefinition

Values = tuple[Any, ...]
Owner = Any
"""A transaction, of transactions.py, which imports this module."""


class Row:
    """One row and its locks."""

    __slots__ = ("command", "history", "number", "owner", "pending", "previous", "sharers", "values", "writer")

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: Values | None = None
        """Committed; None before the commit of its insertion, and after that of its deletion."""
        self.writer: Owner | None = None
        """The transaction with an uncommitted change."""
        self.pending: Values | None = None
        """What the writer has written; None if it has deleted the row."""
        self.previous: Values | None = None
        """What the writer saw before the command of its last write."""
        self.command = 0
        self.owner: Owner | None = None
        self.sharers: set[Owner] | None = None
        self.history: list[tuple[int, Values | None]] | None = None
        """Values that commits replaced while a statement waited, with the numbers of those commits."""

    def visible(self, transaction: Owner, command: int, snapshot: int | None) -> Values | None:
        """Returns what a command of a transaction sees: never its own writes."""
        if self.writer is transaction:
            return self.pending if self.command < command else self.previous
        if snapshot is None or self.history is None:
            return self.values
        return next((values for commit, values in self.history if commit > snapshot), self.values)

    def latest(self, transaction: Owner) -> Values | None:
        return self.pending if self.writer is transaction else self.values


class Index:
    """Finds rows by key. An entry may be of a former or an uncommitted value: readers compare again."""

    __slots__ = ("columns", "entries", "is_unique", "key_of")

    def __init__(self, columns: Sequence[int], *, is_unique: bool) -> None:
        self.columns = tuple(columns)
        self.is_unique = is_unique
        self.key_of: Callable[[Values], Any] = itemgetter(*columns)
        """A value, or a tuple for several columns."""
        self.entries: dict[Any, list[Row]] = {}

    def add(self, key: Any, row: Row) -> None:
        rows = self.entries.get(key)
        if rows is None:
            self.entries[key] = [row]
        elif row not in rows:
            rows.append(row)

    def remove(self, key: Any, row: Row) -> None:
        rows = self.entries.get(key)
        if rows is not None and row in rows:
            rows.remove(row)
            if not rows:
                del self.entries[key]


@dataclass(slots=True)
class Partition:
    """A range of a partitioned table, its bounds in the type of the column."""

    since: datetime
    until: datetime
    maker: Owner | None = None
    """The transaction that has created or dropped it without a commit so far."""
    is_dropped: bool = False


@dataclass(slots=True, eq=False)
class StoredTable:
    """The rows of a table on one server."""

    definition: TableDefinition
    rows: dict[int, Row] = field(default_factory=dict)
    indexes: list[Index] = field(default_factory=list)
    locks: dict[Owner, int] = field(default_factory=dict)
    """Modes of table locks, as bits of transactions.Mode."""
    partitions: dict[str, Partition] = field(default_factory=dict)
    sequence: int = 0
    """The last number of a serial column; never rolled back."""
    numbers: int = 0

    @classmethod
    def of(cls, definition: TableDefinition) -> StoredTable:
        table = cls(definition)
        table.indexes = [Index(columns, is_unique=unique) for columns, unique in definition.indexes]
        return table

    def new_row(self) -> Row:
        self.numbers += 1
        row = self.rows[self.numbers] = Row(self.numbers)
        return row

    def committed(self) -> Iterator[Values]:
        """Yields the committed rows, in the order of their insertion."""
        return (row.values for row in self.rows.values() if row.values is not None)

    def settle(self, row: Row, transaction: Owner, *, commits: bool, number: int, keeps_history: bool) -> None:
        """Makes the writer's change of a row final, or takes it back."""
        old, new = (row.values, row.pending) if commits else (row.pending, row.values)
        if commits:
            if keeps_history:
                row.history = [*(row.history or ()), (number, row.values)]
            row.values = row.pending
        row.writer = row.pending = row.previous = None
        for index in self.indexes:
            new_key = None if new is None else index.key_of(new)
            if old is not None and (new is None or index.key_of(old) != new_key) and not row.history:
                index.remove(index.key_of(old), row)
        if row.values is None and not row.history:
            self._remove(row)

    def _remove(self, row: Row) -> None:
        self.rows.pop(row.number, None)

    def purge(self, row: Row) -> None:
        """Drops the former values of a row, which no statement reads any more."""
        history, row.history = row.history or [], None
        present = row.pending if row.writer is not None else row.values
        for index in self.indexes:
            keep = {index.key_of(values) for values in (present, row.values) if values is not None}
            for _, values in history:
                if values is not None and index.key_of(values) not in keep:
                    index.remove(index.key_of(values), row)
        if row.values is None and row.writer is None:
            self._remove(row)
