"""Compiles INSERT, UPDATE and DELETE. A statement sees none of its own writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
from tests.support.postgres_twin.catalog import TableDefinition
from tests.support.postgres_twin.expressions import function_of
from tests.support.postgres_twin.outputs import builder, output_columns
from tests.support.postgres_twin.rows import Index, Row, StoredTable, Values
from tests.support.postgres_twin.scopes import (
    EXECUTION,
    CompiledQuery,
    Execution,
    Frame,
    Function,
    Relation,
    Rows,
    Scope,
)
from tests.support.postgres_twin.sources import Scan, conjuncts, joined, table_scan
from tests.support.postgres_twin.syntax import Delete, Expression, Insert, Update
from tests.support.postgres_twin.transactions import ROW_EXCLUSIVE, Blocked, Transaction

Parts = tuple[Sequence[str], Sequence[str], Callable[[Frame], Rows]]
"""Names and types of the columns, and the function that runs the statement."""


def definition_of(name: str, scope: Scope) -> TableDefinition:
    """Returns a table that a statement writes. Raises UndefinedTableError."""
    found = scope.statement.catalog.tables.get(name)
    if found is None:
        raise asyncpg.UndefinedTableError(f'relation "{name}" does not exist')
    scope.statement.uses(name, ROW_EXCLUSIVE)
    scope.statement.writes = True
    return found


def _relation(definition: TableDefinition, alias: str, scope: Scope) -> Relation:
    types = [column.type for column in definition.columns]
    return Relation(alias, definition.names, types, scope.statement.place(2))


def _returning(columns: Sequence[tuple[Expression, str]], scope: Scope) -> tuple[list[str], list[str], Function]:
    if not columns:
        return [], [], lambda _: ()
    outputs = output_columns(columns, scope)
    return [output.name for output in outputs], [output.type for output in outputs], builder(outputs)


class RowBuilder:
    """Builds the values of new and changed rows: defaults, types, generated columns, NOT NULL, CHECK."""

    def __init__(self, definition: TableDefinition, scope: Scope) -> None:
        self._definition = definition
        own = Scope(scope.statement)
        relation = _relation(definition, definition.name, own)
        own.relations.append(relation)
        self._place = relation.place
        columns = list(enumerate(definition.columns))
        self._generated = [(n, function_of(c.generated, own)) for n, c in columns if c.generated is not None]
        self._checks = [(name, function_of(condition, own)) for name, condition in definition.checks]
        self._required = [n for n, column in columns if column.is_required]

    def default_of(self, place: int, scope: Scope) -> Function | None:
        """Returns the function of a column's default; None without one."""
        column, name = self._definition.columns[place], self._definition.name
        if column.default is None:
            return None
        if getattr(column.default, "name", "") == "nextval":
            return lambda frame: frame[EXECUTION].draw(frame[EXECUTION].tables[name])
        value, store = function_of(column.default, scope), self._definition.stores[place]
        return lambda frame: None if (found := value(frame)) is None else store(found)

    def finish(self, frame: Frame, values: list[Any]) -> Values:
        """Raises NotNullViolationError, and CheckViolationError for what a constraint or every partition refuses."""
        definition = self._definition
        for number, generated in self._generated:
            frame[self._place] = values
            found = generated(frame)
            values[number] = None if found is None else definition.stores[number](found)
        for number in self._required:
            if values[number] is None:
                name = definition.columns[number].name
                raise asyncpg.NotNullViolationError(f'null value in column "{name}" violates not-null constraint')
        if self._checks:
            frame[self._place] = values
        for constraint, holds in self._checks:
            if holds(frame) is False:
                said = f'new row for relation "{definition.name}" violates check constraint "{constraint}"'
                raise asyncpg.CheckViolationError(said)
        if definition.partitioned_by is not None:
            _refuse_unpartitioned(frame[EXECUTION], definition, values[definition.partitioned_by])
        return tuple(values)


def _refuse_unpartitioned(execution: Execution, definition: TableDefinition, value: Any) -> None:
    for part in execution.tables[definition.name].partitions.values():
        is_gone = part.is_dropped and part.maker in (None, execution.transaction)
        if part.since <= value < part.until and not is_gone:
            return
    raise asyncpg.CheckViolationError(f'no partition of relation "{definition.name}" found for row')


def insert_row(execution: Execution, table: StoredTable, values: Values) -> Row | None:
    """Inserts a row; returns the present one if a unique key is taken. Raises Blocked while that is not known yet."""
    transaction = execution.transaction
    for index in table.indexes:
        if index.is_unique:
            taken = _holder(index, index.key_of(values), transaction)
            if taken is not None:
                return taken
    row = table.new_row()
    row.owner = transaction
    transaction.locked.append(row)
    transaction.write(table, row, values)
    for index in table.indexes:
        index.add(index.key_of(values), row)
    return None


def _holder(index: Index, key: Any, transaction: Transaction, but: Row | None = None) -> Row | None:
    """Returns the row that has a unique key. Raises Blocked if that depends on another transaction."""
    if key is None:
        return None
    for row in index.entries.get(key, ()):
        if row is but:
            continue
        if row.writer is None or row.writer is transaction:
            values = row.latest(transaction)
            if values is not None and index.key_of(values) == key:
                return row
        elif any(values is not None and index.key_of(values) == key for values in (row.values, row.pending)):
            raise Blocked([row.writer])
    return None


def compiled_insert(insert: Insert, scope: Scope, source: CompiledQuery) -> Parts:
    definition = definition_of(insert.table, scope)
    names = insert.columns or definition.names
    targets = [_place_of(definition, name) for name in names]
    fill = RowBuilder(definition, scope)
    given = set(targets)
    missing = [n for n in range(len(definition.columns)) if n not in given]
    defaults = [(n, default) for n in missing if (default := fill.default_of(n, scope)) is not None]
    relation = _relation(definition, insert.table, scope)
    relation.names, relation.types = [*relation.names, "xmax"], [*relation.types, "bigint"]
    scope.relations.append(relation)
    resolve = _resolution(insert, definition, relation, fill, scope)
    columns, types, result = _returning(insert.returning, scope)
    pairs = [(target, definition.stores[target]) for target in targets]
    width, place, table_name = len(definition.columns), relation.place, insert.table

    def run(frame: Frame) -> Rows:
        execution = frame[EXECUTION]
        table, rows = execution.tables[table_name], Rows()
        for proposed in source.run(frame):
            values: list[Any] = [None] * width
            for (target, store), value in zip(pairs, proposed, strict=True):
                if value is not None:
                    values[target] = store(value)
            for number, default in defaults:
                values[number] = default(frame)
            whole = fill.finish(frame, values)
            taken = insert_row(execution, table, whole)
            if taken is None:
                frame[place] = (*whole, 0)
                rows.append(result(frame))
            elif resolve(frame, table, taken, whole):
                rows.append(result(frame))
        return rows

    return columns, types, run


def _place_of(definition: TableDefinition, name: str) -> int:
    if name not in definition.places:
        raise asyncpg.UndefinedColumnError(f'column "{name}" of relation "{definition.name}" does not exist')
    return definition.places[name]


def _resolution(
    insert: Insert, definition: TableDefinition, relation: Relation, fill: RowBuilder, scope: Scope
) -> Callable[[Frame, StoredTable, Row, Values], bool]:
    """Returns what happens if a row is there already; it returns whether the row was written."""
    if insert.on_conflict == "nothing":
        return lambda *_: False
    if not insert.on_conflict:
        return _violated
    excluded = _relation(definition, "excluded", scope)
    excluded.is_hidden = True
    scope.relations.append(excluded)
    assigned = _assignments(insert.assignments, definition, scope)
    where = None if insert.where is None else function_of(insert.where, scope)
    place, proposed_place = relation.place, excluded.place

    def update(frame: Frame, table: StoredTable, row: Row, proposed: Values) -> bool:
        execution = frame[EXECUTION]
        transaction = execution.transaction
        transaction.lock_row(row)
        if row.writer is transaction and row.command == execution.command:
            raise asyncpg.CardinalityViolationError("ON CONFLICT DO UPDATE command cannot affect row a second time")
        latest = row.latest(transaction)
        assert latest is not None
        frame[place], frame[proposed_place] = (*latest, 1), proposed
        if where is not None and not where(frame):
            return False
        new = fill.finish(frame, _changed(frame, latest, assigned))
        change_row(execution, table, row, latest, new)
        frame[place] = (*new, 1)
        return True

    return update


def _violated(_: Frame, table: StoredTable, __: Row, proposed: Values) -> bool:
    raise asyncpg.UniqueViolationError(
        f'duplicate key value violates unique constraint of "{table.definition.name}": {proposed[:2]}'
    )


def _assignments(
    assignments: Sequence[tuple[str, Expression]], definition: TableDefinition, scope: Scope
) -> list[tuple[int, Function, Callable[[Any], Any]]]:
    found = []
    for name, value in assignments:
        place = _place_of(definition, name)
        found.append((place, function_of(value, scope), definition.stores[place]))
    return found


def _changed(frame: Frame, values: Values, assigned: Sequence[tuple[int, Function, Callable[[Any], Any]]]) -> list[Any]:
    new = list(values)
    for place, function, store in assigned:
        value = function(frame)
        new[place] = None if value is None else store(value)
    return new


def change_row(execution: Execution, table: StoredTable, row: Row, old: Values, new: Values) -> None:
    """Writes new values of a locked row. Raises UniqueViolationError, and Blocked as an insertion does."""
    moved = [index for index in table.indexes if index.key_of(old) != index.key_of(new)]
    for index in moved:
        if index.is_unique and _holder(index, index.key_of(new), execution.transaction, row) is not None:
            raise asyncpg.UniqueViolationError(f"duplicate key value {index.key_of(new)!r} violates unique constraint")
    execution.transaction.write(table, row, new)
    for index in moved:
        index.add(index.key_of(new), row)


def _targets(scan: Scan, relation: Relation, places: Sequence[int], where: Function | None) -> Callable[[Frame], Any]:
    """Returns a generator of the rows to change, locked, in their latest form if a wait has made that another one."""
    place = relation.place

    def rows(frame: Frame) -> Any:
        execution = frame[EXECUTION]
        transaction, command = execution.transaction, execution.command
        found = [[frame[one] for one in places] for _ in scan(frame) if where is None or where(frame)]
        for kept in found:
            for one, value in zip(places, kept, strict=True):
                frame[one] = value
            row, values = frame[place + 1], frame[place]
            transaction.lock_row(row)
            if row.writer is transaction and row.command == command:
                continue
            latest = row.latest(transaction)
            if latest is not values:
                frame[place] = latest
                if latest is None or (where is not None and not where(frame)):
                    continue
            yield row, latest

    return rows


def compiled_update(update: Update, scope: Scope) -> Parts:
    definition = definition_of(update.table, scope)
    others = joined(update.sources, None, scope)
    relation = _relation(definition, update.alias, scope)
    scan = _then(others, table_scan(definition, relation, scope, conjuncts(update.where)))
    scope.relations.insert(0, relation)
    where = None if update.where is None else function_of(update.where, scope)
    fill, assigned = RowBuilder(definition, scope), _assignments(update.assignments, definition, scope)
    columns, types, result = _returning(update.returning, scope)
    places = [place for one in scope.relations for place in (one.place, one.place + 1)]
    targets, place, name = _targets(scan, relation, places, where), relation.place, update.table

    def run(frame: Frame) -> Rows:
        execution, rows = frame[EXECUTION], Rows()
        table = execution.tables[name]
        for row, latest in targets(frame):
            new = fill.finish(frame, _changed(frame, latest, assigned))
            change_row(execution, table, row, latest, new)
            frame[place] = new
            rows.append(result(frame))
        return rows

    return columns, types, run


def _then(first: Scan, second: Scan) -> Scan:
    def scan(frame: Frame) -> Any:
        for _ in first(frame):
            yield from second(frame)

    return scan


def compiled_delete(delete: Delete, scope: Scope) -> Parts:
    definition = definition_of(delete.table, scope)
    relation = _relation(definition, delete.alias, scope)
    scan = table_scan(definition, relation, scope, conjuncts(delete.where))
    scope.relations.append(relation)
    where = None if delete.where is None else function_of(delete.where, scope)
    columns, types, result = _returning(delete.returning, scope)
    targets = _targets(scan, relation, [relation.place, relation.place + 1], where)
    place, name = relation.place, delete.table

    def run(frame: Frame) -> Rows:
        execution, rows = frame[EXECUTION], Rows()
        table = execution.tables[name]
        for row, latest in targets(frame):
            execution.transaction.write(table, row, None)
            frame[place] = latest
            rows.append(result(frame))
        return rows

    return columns, types, run
