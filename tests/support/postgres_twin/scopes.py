"""Names while a statement is compiled, and the frame in which it runs.

A frame is one list for each execution: its parameters, the execution, and then a place for each row that a source of a
query stands at. Compiled expressions are functions of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tests.support.postgres_twin.catalog import Catalog
from tests.support.postgres_twin.rows import StoredTable
from tests.support.postgres_twin.syntax import Call, Query
from tests.support.postgres_twin.transactions import Transaction

Frame = list[Any]
Function = Callable[[Frame], Any]
Rows = list[tuple[Any, ...]]
PARAMETERS, EXECUTION, FIRST_PLACE = 0, 1, 2


class Compiled(NamedTuple):
    """An expression and its type: empty for a parameter, `unknown` for a literal in quotes."""

    of: Function
    type: str


class OutputColumn(NamedTuple):
    """A column of a query."""

    name: str
    of: Function
    type: str


@dataclass(slots=True)
class CompiledQuery:
    """A query: its columns, and the function that runs it."""

    names: Sequence[str]
    types: Sequence[str]
    run: Callable[[Frame], Rows]
    counts: bool = False
    """It changes rows and returns none: `run` gives one empty tuple for each changed row."""


@dataclass(slots=True)
class Execution:
    """One execution of a statement."""

    server: Any
    """Of server.py, which imports this module; so is the session."""
    session: Any
    transaction: Transaction
    tables: Mapping[str, StoredTable]
    catalog: Catalog
    command: int
    snapshot: int | None = None
    """The last commit that it sees; None if it has not waited, so that nothing was committed since it began."""
    drawn: list[int] = field(default_factory=list)
    """Numbers drawn from sequences: a statement that waited and starts again gets them again."""
    draws: int = 0

    @property
    def now(self) -> datetime:
        return self.transaction.now

    def draw(self, table: StoredTable) -> int:
        """Returns the next number of the table's sequence."""
        if self.draws == len(self.drawn):
            table.sequence += 1
            self.drawn.append(table.sequence)
        self.draws += 1
        return self.drawn[self.draws - 1]


@dataclass(slots=True)
class Relation:
    """A source of a query while it is compiled: its columns, and the place of its row in the frame."""

    alias: str
    names: Sequence[str]
    types: Sequence[str]
    place: int
    is_hidden: bool = False
    """It is found by its alias only, as `excluded`."""


@dataclass(slots=True)
class Named:
    """A common table expression: its rows are at a place of the frame."""

    names: Sequence[str]
    types: Sequence[str]
    place: int


@dataclass(slots=True)
class Statement:
    """What is common to all queries of a statement while it is compiled."""

    catalog: Catalog
    compile_query: Callable[[Query, Scope], CompiledQuery]
    """queries.compiled_query, for subqueries."""
    places: int = FIRST_PLACE
    writes: bool = False
    locks: bool = False
    tables: dict[str, int] = field(default_factory=dict)
    """Tables with the modes of their locks."""

    def place(self, count: int = 1) -> int:
        """Returns the first of so many new places of the frame."""
        self.places += count
        return self.places - count

    def uses(self, table: str, mode: int) -> None:
        self.tables[table] = self.tables.get(table, 0) | mode


@dataclass(slots=True)
class Scope:
    """The names that expressions of one query may use."""

    statement: Statement
    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    named: dict[str, Named] = field(default_factory=dict)
    aggregates: list[tuple[Call, int]] | None = None
    """Aggregates of the query with their places; None where none may stand."""
    windows: list[tuple[Call, int]] | None = None

    def find(self, name: str, table: str) -> tuple[int, int, str] | None:
        """Returns the place of a column's row, its position there and its type."""
        for relation in self.relations:
            if (relation.alias == table if table else not relation.is_hidden) and name in relation.names:
                position = list(relation.names).index(name)
                return relation.place, position, relation.types[position]
        return None if self.parent is None else self.parent.find(name, table)

    def common(self, name: str) -> Named | None:
        if name in self.named:
            return self.named[name]
        return None if self.parent is None else self.parent.common(name)
