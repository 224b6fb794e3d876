"""Compiles the sources of a query: each is a generator that puts one row after another into the frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import asyncpg
from tests.support.postgres_twin.catalog import TableDefinition
from tests.support.postgres_twin.expressions import compiled, function_of
from tests.support.postgres_twin.functions import SETS
from tests.support.postgres_twin.rows import Row, Values
from tests.support.postgres_twin.scopes import EXECUTION, Frame, Function, Relation, Scope
from tests.support.postgres_twin.syntax import Call, ColumnName, Expression, FromItem, Operation, Quantified
from tests.support.postgres_twin.system_tables import SYSTEM_TABLES
from tests.support.postgres_twin.transactions import ACCESS_SHARE
from tests.support.postgres_twin.values import Json, cast_to

Scan = Callable[[Frame], Iterator[None]]
Candidates = Callable[[Frame], Iterable[Row]]


def once(_: Frame) -> Iterator[None]:
    """A query without sources has one row."""
    yield None


def joined(sources: Sequence[FromItem], where: Expression | None, scope: Scope) -> Scan:
    """Compiles the sources of FROM in their order, and adds them to the scope."""
    conditions = conjuncts(where)
    scan: Scan = once
    for number, source in enumerate(sources):
        bound = [*conditions, *conjuncts(source.on)]
        relation, rows = compiled_source(source, scope, bound)
        scope.relations.append(relation)
        on = None if source.on is None else function_of(source.on, scope)
        scan = (
            rows if number == 0 else _join(scan, rows, on, relation.place if source.join == "left" else None, relation)
        )
    return scan


def _join(left: Scan, right: Scan, on: Function | None, outer: int | None, relation: Relation) -> Scan:
    empty = (None,) * len(relation.names)

    def scan(frame: Frame) -> Iterator[None]:
        for _ in left(frame):
            matched = False
            for _ in right(frame):
                if on is None or on(frame):
                    matched = True
                    yield None
            if outer is not None and not matched:
                frame[outer] = empty
                yield None

    return scan


def conjuncts(condition: Expression | None) -> list[Expression]:
    """Returns the conditions that all must hold."""
    if condition is None:
        return []
    if isinstance(condition, Operation) and condition.name == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def compiled_source(source: FromItem, scope: Scope, conditions: Sequence[Expression]) -> tuple[Relation, Scan]:
    if source.function is not None:
        return _function(source, source.function, scope)
    if source.query is not None:
        return _query(source, scope)
    name = source.table
    named = scope.common(name)
    if named is not None:
        relation = Relation(source.alias or name, named.names, named.types, scope.statement.place())
        return relation, _from_place(named.place, relation.place)
    if name in SYSTEM_TABLES:
        return _system(source, scope)
    catalog = scope.statement.catalog
    if name in catalog.views:
        return _query(FromItem(query=catalog.views[name], alias=source.alias or name), scope)
    return _table(source, scope, conditions)


def _from_place(rows_place: int, place: int) -> Scan:
    def scan(frame: Frame) -> Iterator[None]:
        for values in frame[rows_place]:
            frame[place] = values
            yield None

    return scan


def _system(source: FromItem, scope: Scope) -> tuple[Relation, Scan]:
    names, rows = SYSTEM_TABLES[source.table]
    relation = Relation(source.alias or source.table, names, [""] * len(names), scope.statement.place())
    place = relation.place

    def scan(frame: Frame) -> Iterator[None]:
        for values in rows(frame[EXECUTION]):
            frame[place] = values
            yield None

    return relation, scan


def _query(source: FromItem, scope: Scope) -> tuple[Relation, Scan]:
    assert source.query is not None
    query = scope.statement.compile_query(source.query, scope)
    relation = Relation(source.alias, source.columns or query.names, query.types, scope.statement.place())
    run, place = query.run, relation.place

    def scan(frame: Frame) -> Iterator[None]:
        for values in run(frame):
            frame[place] = values
            yield None

    return relation, scan


def _function(source: FromItem, call: Call, scope: Scope) -> tuple[Relation, Scan]:
    arguments = [compiled(argument, scope) for argument in call.arguments]
    place = scope.statement.place()
    if call.name == "jsonb_to_record":
        return Relation(source.alias, source.columns, source.types, place), _record(source, arguments[0].of, place)
    types = [argument.type.removesuffix("[]") for argument in arguments]
    if call.name != "unnest":
        types = ["text" if call.name.endswith("_text") else "integer"]
    names = source.columns or ([source.alias or call.name] if len(types) == 1 else [call.name] * len(types))
    relation = Relation(source.alias or call.name, names, types, place)
    functions = [argument.of for argument in arguments]
    rows = SETS[call.name]
    is_table = call.name == "unnest" and len(functions) > 1

    def scan(frame: Frame) -> Iterator[None]:
        values = [function(frame) for function in functions]
        if is_table:
            for row in zip_longest(*(value or () for value in values)):
                frame[place] = row
                yield None
        elif None not in values:
            for item in rows(*values):
                frame[place] = (item,)
                yield None

    return relation, scan


def _record(source: FromItem, document: Function, place: int) -> Scan:
    pairs = list(zip(source.columns, source.types, strict=True))

    def scan(frame: Frame) -> Iterator[None]:
        value = document(frame)
        if value is not None:
            frame[place] = tuple(_member(value, name, kind) for name, kind in pairs)
            yield None

    return scan


def _member(value: Json, name: str, kind: str) -> Any:
    if name not in value.content:
        return None
    content = value.content[name]
    if kind == "jsonb":
        return Json(content)
    if content is None:
        return None
    return cast_to(kind)(content if isinstance(content, str) else Json(content).text)


def _table(source: FromItem, scope: Scope, conditions: Sequence[Expression]) -> tuple[Relation, Scan]:
    definition = scope.statement.catalog.tables.get(source.table)
    if definition is None:
        raise asyncpg.UndefinedTableError(f'relation "{source.table}" does not exist')
    scope.statement.uses(source.table, ACCESS_SHARE)
    place = scope.statement.place(2)
    types = [column.type for column in definition.columns]
    relation = Relation(source.alias or source.table, definition.names, types, place)
    return relation, table_scan(definition, relation, scope, conditions)


def table_scan(definition: TableDefinition, relation: Relation, scope: Scope, conditions: Sequence[Expression]) -> Scan:
    """Returns a scan that puts the values of a row, and the row itself, at the relation's place."""
    candidates, place = _access(definition, relation, scope, conditions), relation.place

    def scan(frame: Frame) -> Iterator[None]:
        execution = frame[EXECUTION]
        transaction, command, snapshot = execution.transaction, execution.command, execution.snapshot
        for row in candidates(frame):
            values: Values | None
            if row.writer is None and snapshot is None:
                values = row.values
            else:
                values = row.visible(transaction, command, snapshot)
            if values is not None:
                frame[place] = values
                frame[place + 1] = row
                yield None

    return scan


def _access(
    definition: TableDefinition, relation: Relation, scope: Scope, conditions: Sequence[Expression]
) -> Candidates:
    """Returns the cheapest way to the rows: by the longest key that is given, or all of them."""
    name = definition.name
    known: dict[str, tuple[Function, bool]] = {}
    for condition in conditions:
        found = _given(condition, relation, scope)
        if found is not None:
            known.setdefault(found[0], found[1:])
    best = None
    for number, (columns, _) in enumerate(definition.indexes):
        names = [definition.columns[column].name for column in columns]
        single = len(names) == 1
        if not all(column in known and (single or not known[column][1]) for column in names):
            continue
        if best is None or len(columns) > len(definition.indexes[best][0]):
            best = number
    if best is None:
        return lambda frame: frame[EXECUTION].tables[name].rows.values()
    keys = [known[definition.columns[column].name] for column in definition.indexes[best][0]]
    return _by_key(name, best, keys)


def _by_key(name: str, number: int, keys: Sequence[tuple[Function, bool]]) -> Candidates:
    (key, is_many), functions = keys[0], [function for function, _ in keys]
    if len(keys) == 1 and is_many:

        def by_keys(frame: Frame) -> Iterable[Row]:
            entries = frame[EXECUTION].tables[name].indexes[number].entries
            return [row for one in dict.fromkeys(key(frame) or ()) for row in entries.get(one, ())]

        return by_keys
    if len(keys) == 1:
        return lambda frame: tuple(frame[EXECUTION].tables[name].indexes[number].entries.get(key(frame), ()))

    def by_tuple(frame: Frame) -> Iterable[Row]:
        entries = frame[EXECUTION].tables[name].indexes[number].entries
        return tuple(entries.get(tuple(function(frame) for function in functions), ()))

    return by_tuple


def _given(condition: Expression, relation: Relation, scope: Scope) -> tuple[str, Function, bool] | None:
    """Returns a column of the relation that must equal a value known before the scan, or one of many values."""
    if isinstance(condition, Quantified):
        column = condition.value
        if condition.operator != "=" or condition.is_all or not isinstance(column, ColumnName):
            return None
        value = _before(condition.array, scope) if _names(column, relation) else None
        return None if value is None else (column.name, value, True)
    if not isinstance(condition, Operation) or condition.name != "=":
        return None
    for column, other in (condition.arguments, tuple(reversed(condition.arguments))):
        if isinstance(column, ColumnName) and _names(column, relation) and not _names(other, relation):
            value = _before(other, scope)
            if value is not None:
                return column.name, value, False
    return None


def _names(expression: Expression, relation: Relation) -> bool:
    return (
        isinstance(expression, ColumnName)
        and expression.name in relation.names
        and expression.table in ("", relation.alias)
    )


def _before(expression: Expression, scope: Scope) -> Function | None:
    """Compiles an expression of what stands before in FROM; None if it needs more than that."""
    try:
        return function_of(expression, scope)
    except asyncpg.UndefinedColumnError:
        return None
