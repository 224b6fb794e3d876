"""Runs CREATE, ALTER, DROP and TRUNCATE. Definitions change the catalog of one server at once, and no rollback takes
them back: only migrations have them.

Partitions, which services create while they work, are in the table and not in the catalog: their creation and their
removal become visible with the commit, and a rollback takes them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
from tests.support.postgres_twin.catalog import Catalog, TableDefinition
from tests.support.postgres_twin.changes import RowBuilder
from tests.support.postgres_twin.plan import CompiledStatement, StatementResult
from tests.support.postgres_twin.queries import compiled_query
from tests.support.postgres_twin.rows import Partition, StoredTable
from tests.support.postgres_twin.scopes import Execution, Scope, Statement
from tests.support.postgres_twin.syntax import (
    AlterTable,
    ColumnDefinition,
    CreateIndex,
    CreatePartition,
    CreateTable,
    CreateView,
    Drop,
    Truncate,
)
from tests.support.postgres_twin.transactions import ACCESS_EXCLUSIVE
from tests.support.postgres_twin.values import cast_to


def definition_plan(parsed: Any) -> CompiledStatement:
    """Returns the plan of a definition."""
    apply = _APPLIED[type(parsed)]

    def run(execution: Execution, _: Any) -> StatementResult:
        apply(parsed, execution)
        return StatementResult((), [], 0, "DEFINITION")

    return CompiledStatement(run, writes=True)


def _create_table(parsed: CreateTable, execution: Execution) -> None:
    definition = TableDefinition(parsed.table, parsed.columns, checks=parsed.checks)
    keys = [[column.name] for column in parsed.columns if column.is_key or column.is_unique]
    for key in [*keys, *parsed.keys]:
        definition.indexes.append((tuple(definition.places[name] for name in key), True))
    if parsed.partitioned_by:
        definition.partitioned_by = definition.places[parsed.partitioned_by]
    _redefine(execution, definition)


def _redefine(execution: Execution, definition: TableDefinition, convert: Callable[[Any], Any] | None = None) -> None:
    """Puts a new definition in the place of the present one, and converts the table's rows."""
    catalog = execution.session.changed_catalog()
    catalog.tables[definition.name] = definition
    tables = execution.session.tables
    old, new = tables.get(definition.name), StoredTable.of(definition)
    if old is not None:
        execution.transaction.lock_table(old, ACCESS_EXCLUSIVE)
        new.sequence, new.partitions = old.sequence, old.partitions
        for row in old.rows.values():
            values = row.latest(execution.transaction)
            if values is not None:
                _put(new, convert(values) if convert is not None else values)
    tables[definition.name] = new


def _put(table: StoredTable, values: Any) -> None:
    row = table.new_row()
    row.values = values
    for index in table.indexes:
        index.add(index.key_of(values), row)


def _create_view(parsed: CreateView, execution: Execution) -> None:
    execution.session.changed_catalog().views[parsed.table] = parsed.query


def _create_index(parsed: CreateIndex, execution: Execution) -> None:
    """A unique index, or an index on the first column: more would not be used."""
    old = execution.session.tables[parsed.table].definition
    names = parsed.columns if parsed.is_unique else parsed.columns[:1]
    added = (tuple(old.places[name] for name in names), parsed.is_unique)
    definition = TableDefinition(old.name, old.columns, [*old.indexes, added], old.partitioned_by, old.checks)
    _redefine(execution, definition)
    execution.session.catalog.index_names[parsed.name] = old.name, added


def _create_partition(parsed: CreatePartition, execution: Execution) -> None:
    transaction, table = execution.transaction, execution.tables[parsed.parent]
    present = table.partitions.get(parsed.table)
    if present is not None and not present.is_dropped:
        return
    transaction.lock_table(table, ACCESS_EXCLUSIVE)
    to_time = cast_to("timestamptz")
    made = Partition(to_time(parsed.since), to_time(parsed.until), transaction)
    table.partitions[parsed.table] = made

    def end(commits: bool) -> None:
        made.maker = None
        if not commits:
            table.partitions.pop(parsed.table, None)

    transaction.undo.append(end)


def _drop(parsed: Drop, execution: Execution) -> None:
    parts = [table for table in execution.tables.values() if parsed.table in table.partitions]
    if parts:
        _drop_partition(parts[0], parsed.table, execution)
        return
    catalog = execution.session.changed_catalog()
    if parsed.kind == "index":
        name, dropped = catalog.index_names.pop(parsed.table)
        old = catalog.tables[name]
        kept = [index for index in old.indexes if index is not dropped and index != dropped]
        _redefine(execution, TableDefinition(old.name, old.columns, kept, old.partitioned_by, old.checks))
    elif parsed.kind == "view":
        catalog.views.pop(parsed.table)
    elif parsed.table in catalog.tables:
        del catalog.tables[parsed.table]
        del execution.session.tables[parsed.table]
    elif not parsed.if_exists:
        raise asyncpg.UndefinedTableError(f'table "{parsed.table}" does not exist')


def _drop_partition(table: StoredTable, name: str, execution: Execution) -> None:
    transaction = execution.transaction
    transaction.lock_table(table, ACCESS_EXCLUSIVE)
    part, place = table.partitions[name], table.definition.partitioned_by
    part.maker, part.is_dropped = transaction, True
    for row in list(table.rows.values()):
        values = row.latest(transaction)
        if values is not None and place is not None and part.since <= values[place] < part.until:
            transaction.lock_row(row)
            transaction.write(table, row, None)

    def end(commits: bool) -> None:
        part.maker, part.is_dropped = None, commits
        if commits:
            table.partitions.pop(name, None)

    transaction.undo.append(end)


def _truncate(parsed: Truncate, execution: Execution) -> None:
    for name in parsed.tables:
        table = execution.tables[name]
        execution.transaction.lock_table(table, ACCESS_EXCLUSIVE)
        for row in table.rows.values():
            if row.latest(execution.transaction) is not None:
                execution.transaction.lock_row(row)
                execution.transaction.write(table, row, None)


def _alter(parsed: AlterTable, execution: Execution) -> None:
    steps = [step for step in parsed.steps if step[0] != "nothing"]
    for verb, name, given in steps:
        if verb == "retitle":
            catalog = execution.session.changed_catalog()
            catalog.views[given] = catalog.views.pop(parsed.table)
        elif parsed.table in execution.session.catalog.tables:
            _STEPS[verb](execution, execution.session.catalog.tables[parsed.table], name, given)


def _add(execution: Execution, old: TableDefinition, _: str, column: ColumnDefinition) -> None:
    definition = TableDefinition(old.name, [*old.columns, column], old.indexes, old.partitioned_by, old.checks)
    scope = Scope(Statement(execution.catalog, compiled_query))
    builder = RowBuilder(definition, scope)
    default = builder.default_of(len(definition.columns) - 1, scope)

    def convert(values: Any) -> Any:
        frame = [None, execution, *[None] * scope.statement.places]
        unpartitioned = [*values, None if default is None else default(frame)]
        return builder.finish(frame, unpartitioned)

    _redefine(execution, definition, convert)


def _drop_column(execution: Execution, old: TableDefinition, name: str, _: Any) -> None:
    place = old.places[name]
    moved = [
        (tuple(n - (n > place) for n in columns), unique) for columns, unique in old.indexes if place not in columns
    ]
    columns = [column for column in old.columns if column.name != name]
    definition = TableDefinition(old.name, columns, moved, old.partitioned_by, old.checks)
    _redefine(execution, definition, lambda values: values[:place] + values[place + 1 :])


def _changed_column(execution: Execution, old: TableDefinition, name: str, change: Callable[[Any], Any]) -> None:
    columns = [change(column) if column.name == name else column for column in old.columns]
    _redefine(execution, TableDefinition(old.name, columns, old.indexes, old.partitioned_by, old.checks))


def _copy(column: ColumnDefinition, **changed: Any) -> ColumnDefinition:
    fields = {name: getattr(column, name) for name in ColumnDefinition.__slots__}
    return ColumnDefinition(**{**fields, **changed})


def _rename(execution: Execution, old: TableDefinition, name: str, new: str) -> None:
    """Generated columns keep their values; their expressions name the column as before, and are renamed with it."""
    columns = [
        _copy(column, name=new if column.name == name else column.name, generated=_renamed(column.generated, name, new))
        for column in old.columns
    ]
    _redefine(execution, TableDefinition(old.name, columns, old.indexes, old.partitioned_by, old.checks))


def _renamed(expression: Any, name: str, new: str) -> Any:
    from tests.support.postgres_twin.syntax import ColumnName, Operation

    if isinstance(expression, ColumnName) and expression.name == name:
        return ColumnName(new)
    if isinstance(expression, Operation):
        return Operation(expression.name, [_renamed(argument, name, new) for argument in expression.arguments])
    return expression


_STEPS: dict[str, Callable[[Execution, TableDefinition, str, Any], None]] = {
    "add": _add,
    "drop": _drop_column,
    "rename": _rename,
    "set not null": lambda e, old, name, _: _changed_column(e, old, name, lambda c: _copy(c, is_required=True)),
    "drop not null": lambda e, old, name, _: _changed_column(e, old, name, lambda c: _copy(c, is_required=False)),
    "drop default": lambda e, old, name, _: _changed_column(e, old, name, lambda c: _copy(c, default=None)),
}
_APPLIED: dict[type, Callable[[Any, Execution], None]] = {
    CreateTable: _create_table,
    CreateView: _create_view,
    CreateIndex: _create_index,
    CreatePartition: _create_partition,
    Drop: _drop,
    AlterTable: _alter,
    Truncate: _truncate,
}


def empty_tables(catalog: Catalog) -> dict[str, StoredTable]:
    """Returns the tables of a catalog without rows."""
    return {name: StoredTable.of(definition) for name, definition in catalog.tables.items()}
