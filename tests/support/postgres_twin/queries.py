"""Compiles queries: SELECT, and the common table expressions of any statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.support.postgres_twin.aggregates import grouped, numbered
from tests.support.postgres_twin.changes import compiled_delete, compiled_insert, compiled_update
from tests.support.postgres_twin.expressions import function_of
from tests.support.postgres_twin.functions import SETS
from tests.support.postgres_twin.outputs import builder, output_columns
from tests.support.postgres_twin.rows import Row
from tests.support.postgres_twin.scopes import (
    EXECUTION,
    CompiledQuery,
    Frame,
    Function,
    Named,
    OutputColumn,
    Rows,
    Scope,
)
from tests.support.postgres_twin.sources import Scan, joined
from tests.support.postgres_twin.syntax import (
    Call,
    ColumnName,
    Const,
    Delete,
    Expression,
    FromItem,
    Insert,
    Query,
    Select,
    SortKey,
    Update,
)


def compiled_query(query: Query, parent: Scope) -> CompiledQuery:
    """Compiles a query within a scope."""
    scope = Scope(parent.statement, parent)
    steps = []
    for name, inner in query.named:
        part = compiled_query(inner, scope)
        place = scope.statement.place()
        scope.named[name] = Named(part.names, part.types, place)
        steps.append((place, part.run))
    body = _body(query.body, scope)
    if not steps:
        return body
    run = body.run

    def with_named(frame: Frame) -> Rows:
        for place, step in steps:
            frame[place] = step(frame)
        return run(frame)

    return CompiledQuery(body.names, body.types, with_named, body.counts)


def _body(body: Select | Insert | Update | Delete, scope: Scope) -> CompiledQuery:
    if isinstance(body, Select):
        return _select(body, Scope(scope.statement, scope))
    if isinstance(body, Insert):
        names, types, run = compiled_insert(body, scope, compiled_query(body.source, scope))
    elif isinstance(body, Update):
        names, types, run = compiled_update(body, scope)
    else:
        names, types, run = compiled_delete(body, scope)
    return CompiledQuery(names, types, run, counts=not body.returning)


def _select(select: Select, scope: Scope) -> CompiledQuery:
    columns = _with_sets(select)
    scan = joined(select.sources, select.where, scope)
    where = None if select.where is None else function_of(select.where, scope)
    scope.aggregates, scope.windows = [], []
    outputs = output_columns(columns, scope)
    order = [_sort_key(key, outputs, scope) for key in select.order]
    group = [_group_key(key, outputs, scope) for key in select.group]
    distinct = [function_of(expression, scope) for expression in select.distinct_on]
    if where is not None:
        scan = _filtered(scan, where)
    places = [place for relation in scope.relations for place in (relation.place, relation.place + 1)]
    if scope.windows:
        scan = numbered(scan, scope, places)
    if scope.aggregates or group:
        scan = grouped(scan, scope, places, group, always=not group)
    limit = None if select.limit is None else function_of(select.limit, scope)
    offset = None if select.offset is None else function_of(select.offset, scope)
    build = builder(outputs)
    if select.lock:
        scope.statement.locks = True
        run = _locking(scan, where, build, order, limit, scope, select)
    else:
        run = _plain(scan, build, order, limit, offset, distinct)
    names, types = [output.name for output in outputs], [output.type for output in outputs]
    if select.united is not None:
        first, second = run, _select(select.united, Scope(scope.statement, scope.parent)).run
        return CompiledQuery(names, types, lambda frame: first(frame) + second(frame))
    return CompiledQuery(names, types, run)


def _with_sets(select: Select) -> list[tuple[Expression, str]]:
    """Returns the columns; a function that returns a set becomes a source."""
    columns: list[tuple[Expression, str]] = []
    for number, (value, alias) in enumerate(select.columns):
        if isinstance(value, Call) and value.name in SETS:
            name = f" set {number}"
            select.sources = [*select.sources, FromItem(function=value, alias=name)]
            columns.append((ColumnName(name, name), alias))
        else:
            columns.append((value, alias))
    return columns


def _sort_key(key: SortKey, outputs: Sequence[OutputColumn], scope: Scope) -> tuple[Function, bool]:
    return _by_position(key.value, outputs) or _by_name(key.value, outputs) or function_of(
        key.value, scope
    ), key.descends


def _group_key(value: Expression, outputs: Sequence[OutputColumn], scope: Scope) -> Function:
    found = _by_position(value, outputs)
    if found is None and isinstance(value, ColumnName) and scope.find(value.name, value.table) is None:
        found = _by_name(value, outputs)
    return found or function_of(value, scope)


def _by_position(value: Expression, outputs: Sequence[OutputColumn]) -> Function | None:
    return outputs[value.value - 1].of if isinstance(value, Const) and isinstance(value.value, int) else None


def _by_name(value: Expression, outputs: Sequence[OutputColumn]) -> Function | None:
    if not isinstance(value, ColumnName) or value.table:
        return None
    return next((output.of for output in outputs if output.name == value.name), None)


def _filtered(scan: Scan, where: Function) -> Scan:
    def filtered(frame: Frame) -> Iterator[None]:
        for _ in scan(frame):
            if where(frame):
                yield None

    return filtered


def _plain(
    scan: Scan,
    build: Function,
    order: Sequence[tuple[Function, bool]],
    limit: Function | None,
    offset: Function | None,
    distinct: Sequence[Function],
) -> Callable[[Frame], Rows]:
    if not (order or limit or offset or distinct):
        return lambda frame: [build(frame) for _ in scan(frame)]
    keys = [key for key, _ in order]

    def run(frame: Frame) -> Rows:
        found = [(build(frame), [key(frame) for key in keys], [one(frame) for one in distinct]) for _ in scan(frame)]
        _sort(found, order)
        rows = [row for row, _, _ in found]
        if distinct:
            firsts: dict[Any, tuple[Any, ...]] = {}
            for row, _, same in found:
                firsts.setdefault(tuple(same), row)
            rows = list(firsts.values())
        start = 0 if offset is None else offset(frame)
        end = None if limit is None or (most := limit(frame)) is None else start + most
        return rows[start:end] if start or end is not None else rows

    return run


def _sort(found: list[Any], order: Sequence[tuple[Function, bool]]) -> None:
    """Sorts by the second items: NULL is greater than any value."""
    if len(found) < 2:
        return
    for number in range(len(order) - 1, -1, -1):

        def key(item: Any, number: int = number) -> Any:
            value = item[1][number]
            return (value is None, value)

        found.sort(key=key, reverse=order[number][1])


def _locking(
    scan: Scan,
    where: Function | None,
    build: Function,
    order: Sequence[tuple[Function, bool]],
    limit: Function | None,
    scope: Scope,
    select: Select,
) -> Callable[[Frame], Rows]:
    """Rows are locked in their order until there are enough. One that was changed meanwhile is checked again."""
    if len(scope.relations) != 1:
        raise AssertionError("the PostgreSQL twin locks rows of one table only")
    place, keys = scope.relations[0].place, [key for key, _ in order]
    shared, skips = select.lock == "share", select.skips_locked

    def run(frame: Frame) -> Rows:
        found = [(frame[place + 1], [key(frame) for key in keys], frame[place]) for _ in scan(frame)]
        _sort(found, order)
        most = None if limit is None else limit(frame)
        rows: Rows = []
        for row, _, values in found:
            if most is not None and len(rows) >= most:
                break
            if _locked(frame, place, row, values):
                rows.append(build(frame))
        return rows

    def _locked(frame: Frame, place: int, row: Row, values: Any) -> bool:
        transaction = frame[EXECUTION].transaction
        if skips and row.owner not in (None, transaction):
            return False
        if skips and not shared and row.sharers and row.sharers != {transaction}:
            return False
        transaction.lock_row(row, shared=shared)
        latest = row.latest(transaction)
        frame[place] = latest
        return latest is values or (latest is not None and (where is None or bool(where(frame))))

    return run
