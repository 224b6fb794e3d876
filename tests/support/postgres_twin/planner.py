"""Compiles statements to plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.postgres_twin.catalog import Catalog
from tests.support.postgres_twin.changes import compiled_insert
from tests.support.postgres_twin.definitions import definition_plan
from tests.support.postgres_twin.functions import elements_of
from tests.support.postgres_twin.plan import CompiledStatement, StatementResult
from tests.support.postgres_twin.queries import compiled_query
from tests.support.postgres_twin.scopes import PARAMETERS, CompiledQuery, Execution, Frame, Scope, Statement
from tests.support.postgres_twin.sql_statements import parse_statement
from tests.support.postgres_twin.syntax import Copy, Insert, LockTable, Nothing, Query, Select, Update
from tests.support.postgres_twin.syntax import Statement as Parsed
from tests.support.postgres_twin.transactions import (
    ACCESS_EXCLUSIVE,
    SHARE_ROW_EXCLUSIVE,
)
from tests.support.postgres_twin.values import Json, WireArray

_MODES = {"share row exclusive": SHARE_ROW_EXCLUSIVE, "access exclusive": ACCESS_EXCLUSIVE}


def plan_of(sql: str, catalog: Catalog) -> CompiledStatement:
    """Returns the plan of a statement, compiled at its first use."""
    plan = catalog.plans.get(sql)
    if plan is None:
        plan = catalog.plans[sql] = _compiled(parse_statement(sql), catalog)
    return plan


def _compiled(parsed: Parsed, catalog: Catalog) -> CompiledStatement:
    if isinstance(parsed, Query):
        return _query_plan(parsed, catalog)
    if isinstance(parsed, Copy):
        return _copy_plan(parsed, catalog)
    if isinstance(parsed, Nothing):
        return CompiledStatement(lambda *_: StatementResult((), [], 0, "SET"))
    if isinstance(parsed, LockTable):
        return CompiledStatement(
            lambda *_: StatementResult((), [], 0, "LOCK TABLE"), [(parsed.table, _MODES[parsed.mode])], writes=True
        )
    return definition_plan(parsed)


def _query_plan(parsed: Query, catalog: Catalog) -> CompiledStatement:
    statement = Statement(catalog, compiled_query)
    query = compiled_query(parsed, Scope(statement))
    converters = [(n, convert) for n, kind in enumerate(query.types) if (convert := _converter(kind)) is not None]
    names, run, counts, tag = query.names, query.run, query.counts, _tag(parsed)
    size = statement.places + 1
    blank: Frame = [None] * (size - 2)

    def execute(execution: Execution, parameters: Any) -> StatementResult:
        rows = run([parameters, execution, *blank])
        if counts:
            return StatementResult((), [], len(rows), tag)
        if converters:
            rows = [_converted(row, converters) for row in rows]
        return StatementResult(names, rows, len(rows), tag)

    return CompiledStatement(execute, _strongest(statement), statement.writes or statement.locks)


def _strongest(statement: Statement) -> list[tuple[str, int]]:
    """Returns the strongest lock on each table that the statement uses."""
    return [(name, 1 << modes.bit_length() - 1) for name, modes in statement.tables.items()]


def _copy_plan(parsed: Copy, catalog: Catalog) -> CompiledStatement:
    """The rows to insert are the statement's parameters."""
    statement = Statement(catalog, compiled_query)
    source = CompiledQuery((), (), lambda frame: frame[PARAMETERS])
    insert = Insert(parsed.table, parsed.columns, Query(Select()))
    _, _, run = compiled_insert(insert, Scope(statement), source)
    blank: Frame = [None] * (statement.places - 1)

    def execute(execution: Execution, parameters: Any) -> StatementResult:
        return StatementResult((), [], len(run([parameters, execution, *blank])), "COPY")

    return CompiledStatement(execute, _strongest(statement), writes=True)


def _tag(parsed: Query) -> str:
    body = parsed.body
    return "SELECT" if isinstance(body, Select) else "INSERT 0" if isinstance(body, Insert) else (
        "UPDATE" if isinstance(body, Update) else "DELETE"
    )  # fmt: skip


def _converted(row: tuple[Any, ...], converters: Sequence[tuple[int, Callable[[Any], Any]]]) -> tuple[Any, ...]:
    values = list(row)
    for number, convert in converters:
        if values[number] is not None:
            values[number] = convert(values[number])
    return tuple(values)


def _converter(kind: str) -> Callable[[Any], Any] | None:
    """Returns how a type leaves the server: a client must not share an object with it."""
    if kind == "jsonb":
        return Json.copy
    return _copied if kind.endswith("[]") else None


def _copied(value: Any) -> Any:
    if isinstance(value, WireArray):
        return elements_of(value)
    return [_copied(item) if isinstance(item, list | tuple) else item for item in value]
