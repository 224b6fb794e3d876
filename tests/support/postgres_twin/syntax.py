"""The parsed form of the SQL that the twin answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(slots=True)
class Const:
    value: Any


@dataclass(slots=True)
class Param:
    name: str | int


@dataclass(slots=True)
class ColumnName:
    name: str
    table: str = ""


@dataclass(slots=True)
class Star:
    table: str = ""


@dataclass(slots=True)
class Operation:
    """A unary or binary operator, `and`, `or`, `not`, `is null`, `is distinct`, `like` among them."""

    name: str
    arguments: Sequence[Expression]


@dataclass(slots=True)
class Call:
    name: str
    arguments: Sequence[Expression]
    order: Sequence[SortKey] = ()
    where: Expression | None = None
    partition: Sequence[Expression] | None = None
    """Not None: a window function, over `partition` in `order`."""
    is_star: bool = False


@dataclass(slots=True)
class Cast:
    value: Expression
    type: str


@dataclass(slots=True)
class Case:
    whens: Sequence[tuple[Expression, Expression]]
    otherwise: Expression | None


@dataclass(slots=True)
class RowValue:
    items: Sequence[Expression]


@dataclass(slots=True)
class ArrayItems:
    items: Sequence[Expression]


@dataclass(slots=True)
class Subquery:
    """A query as an expression: `exists`, `array`, `scalar`, or the right side of `in`."""

    kind: str
    query: Query
    left: Expression | None = None


@dataclass(slots=True)
class InList:
    value: Expression
    items: Sequence[Expression]


@dataclass(slots=True)
class Quantified:
    """`value = ANY (array)` or `value <> ALL (array)`."""

    operator: str
    value: Expression
    array: Expression
    is_all: bool


@dataclass(slots=True)
class Subscript:
    array: Expression
    first: Expression
    last: Expression | None = None
    """Not None: a slice."""


Expression: TypeAlias = (
    Const
    | Param
    | ColumnName
    | Star
    | Operation
    | Call
    | Cast
    | Case
    | RowValue
    | ArrayItems
    | Subquery
    | InList
    | Quantified
    | Subscript
)


@dataclass(slots=True)
class SortKey:
    value: Expression
    descends: bool = False


@dataclass(slots=True)
class FromItem:
    """An item of FROM: a table, a query or a function, joined to the items before it."""

    table: str = ""
    query: Query | None = None
    function: Call | None = None
    alias: str = ""
    columns: Sequence[str] = ()
    types: Sequence[str] = ()
    join: str = "cross"
    on: Expression | None = None


@dataclass(slots=True)
class Select:
    columns: list[tuple[Expression, str]] = field(default_factory=list)
    distinct_on: Sequence[Expression] = ()
    sources: list[FromItem] = field(default_factory=list)
    where: Expression | None = None
    group: Sequence[Expression] = ()
    order: Sequence[SortKey] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    lock: str = ""
    """`update` or `share`: locks the rows of the only table."""
    skips_locked: bool = False
    united: Select | None = None
    """UNION ALL with this query."""


@dataclass(slots=True)
class Insert:
    table: str
    columns: Sequence[str]
    source: Query
    on_conflict: str = ""
    """`nothing` or `update`."""
    target: Sequence[str] = ()
    assignments: Sequence[tuple[str, Expression]] = ()
    where: Expression | None = None
    returning: list[tuple[Expression, str]] = field(default_factory=list)


@dataclass(slots=True)
class Update:
    table: str
    alias: str
    assignments: Sequence[tuple[str, Expression]]
    sources: list[FromItem]
    where: Expression | None
    returning: list[tuple[Expression, str]]


@dataclass(slots=True)
class Delete:
    table: str
    alias: str
    where: Expression | None
    returning: list[tuple[Expression, str]]


Body: TypeAlias = Select | Insert | Update | Delete


@dataclass(slots=True)
class Query:
    """A statement with its common table expressions."""

    body: Body
    named: Sequence[tuple[str, Query]] = ()


@dataclass(slots=True)
class ColumnDefinition:
    name: str
    type: str
    is_required: bool = False
    default: Expression | None = None
    generated: Expression | None = None
    is_key: bool = False
    is_unique: bool = False


@dataclass(slots=True)
class CreateTable:
    table: str
    columns: list[ColumnDefinition]
    keys: list[Sequence[str]]
    partitioned_by: str = ""
    checks: list[tuple[str, Expression]] = field(default_factory=list)
    """Constraints by name."""


@dataclass(slots=True)
class CreatePartition:
    table: str
    parent: str
    since: str
    until: str


@dataclass(slots=True)
class CreateView:
    table: str
    query: Query


@dataclass(slots=True)
class CreateIndex:
    name: str
    table: str
    columns: Sequence[str]
    is_unique: bool = False


@dataclass(slots=True)
class AlterTable:
    """`steps` are (verb, column, definition or new name)."""

    table: str
    steps: list[tuple[str, str, Any]]


@dataclass(slots=True)
class Drop:
    kind: str
    table: str
    if_exists: bool


@dataclass(slots=True)
class LockTable:
    table: str
    mode: str


@dataclass(slots=True)
class Copy:
    """COPY of rows that the client sends."""

    table: str
    columns: Sequence[str]


@dataclass(slots=True)
class Truncate:
    tables: Sequence[str]


@dataclass(slots=True)
class Nothing:
    """A statement without effect in memory, such as SET."""


Statement: TypeAlias = (
    Query
    | CreateTable
    | CreatePartition
    | CreateView
    | CreateIndex
    | AlterTable
    | Drop
    | LockTable
    | Copy
    | Truncate
    | Nothing
)
