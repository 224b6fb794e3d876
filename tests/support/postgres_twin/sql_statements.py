"""Translates the statements that the twin answers: queries, definitions of tables, COPY, LOCK TABLE and SET."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from tests.support.postgres_twin.functions import STRICT
from tests.support.postgres_twin.sql_dialect import arguments_of, name_of, refusal, tree_of, type_name
from tests.support.postgres_twin.sql_queries import QueryTranslator
from tests.support.postgres_twin.syntax import (
    AlterTable,
    Call,
    ColumnDefinition,
    Copy,
    CreateIndex,
    CreatePartition,
    CreateTable,
    CreateView,
    Drop,
    Expression,
    LockTable,
    Nothing,
    Statement,
    Truncate,
)

_SERIALS = {"bigserial": "bigint", "serial": "integer"}
_LOCK = re.compile(r"TABLE (\w+) IN (.+) MODE", re.IGNORECASE)
_STORAGE = re.compile(r"ALTER COLUMN (\w+) SET (?:STORAGE|STATISTICS) \w+", re.IGNORECASE)
_ALTER = re.compile(rf"TABLE (\w+) ({_STORAGE.pattern}(?:, {_STORAGE.pattern})*)", re.IGNORECASE)


class StatementTranslator(QueryTranslator):
    """Translates one statement. Storage options have no effect in memory and are left out."""

    def statement(self, node: Any) -> Statement:
        if isinstance(node, exp.Command):
            return self._command(node)
        if isinstance(node, exp.Create):
            return self._create(node)
        if isinstance(node, exp.Alter):
            return AlterTable(name_of(node.this), [self._step(step) for step in node.args["actions"]])
        if isinstance(node, exp.Drop):
            return Drop(node.args["kind"].lower(), _dropped(node), bool(node.args.get("exists")))
        if isinstance(node, exp.Copy):
            return Copy(name_of(node.this.this), [name_of(column) for column in node.this.expressions])
        if isinstance(node, exp.TruncateTable):
            return Truncate([name_of(table) for table in node.expressions])
        return Nothing() if isinstance(node, exp.Set) else self.query(node)

    def _command(self, node: Any) -> Statement:
        """Statements that sqlglot passes on as text."""
        text = " ".join(node.text("expression").split())
        if node.name == "SET":
            return Nothing()
        if node.name == "LOCK" and (lock := _LOCK.fullmatch(text)):
            return LockTable(lock[1], lock[2].lower())
        if node.name == "ALTER" and (alter := _ALTER.fullmatch(text)):
            return AlterTable(alter[1], [("nothing", column, None) for column in _STORAGE.findall(alter[2])])
        raise refusal(node)

    def _create(self, node: Any) -> Statement:
        kind, what = node.args["kind"], node.this
        if kind == "FUNCTION":
            return _function(node)
        if kind == "INDEX":
            return self._index(node)
        if kind == "VIEW":
            return CreateView(name_of(what), self.query(node.expression))
        properties = node.args.get("properties")
        for property_ in properties.expressions if properties else ():
            if isinstance(property_, exp.PartitionedOfProperty):
                bound = property_.expression
                since, until = bound.args["from_expressions"], bound.args["to_expressions"]
                return CreatePartition(name_of(what), name_of(property_.this), since[0].name, until[0].name)
        return self._table(node)

    def _index(self, node: Any) -> CreateIndex:
        index = node.this
        columns = [column.name for key in index.args["params"].args["columns"] for column in key.find_all(exp.Column)]
        return CreateIndex(index.name, name_of(index.args["table"]), columns, bool(node.args.get("unique")))

    def _table(self, node: Any) -> CreateTable:
        table = CreateTable(name_of(node.this.this), [], [])
        for part in node.this.expressions:
            if isinstance(part, exp.ColumnDef):
                table.columns.append(self._definition_of(part))
            elif isinstance(part, exp.PrimaryKey):
                table.keys.append([name_of(key) for key in part.expressions])
            elif isinstance(part, exp.UniqueColumnConstraint):
                table.keys.append([name_of(key) for key in part.this.expressions])
            elif isinstance(part, exp.Constraint):
                table.checks += [(name_of(part.this), self._check(check)) for check in part.expressions]
            else:
                table.checks.append((f"{table.table}_check", self._check(part)))
        for property_ in node.args["properties"].expressions if node.args.get("properties") else ():
            if isinstance(property_, exp.PartitionedByProperty):
                (key,) = property_.find_all(exp.Column)
                table.partitioned_by = name_of(key)
        return table

    def _check(self, node: Any) -> Expression:
        if not isinstance(node, exp.CheckColumnConstraint):
            raise refusal(node)
        return self.expression(node.this)

    def _definition_of(self, node: Any) -> ColumnDefinition:
        kind = type_name(node.args["kind"])
        column = ColumnDefinition(name_of(node.this), _SERIALS.get(kind, kind))
        if kind in _SERIALS:
            column.default, column.is_required = Call("nextval", ()), True
        for constraint in node.args.get("constraints") or ():
            self._constrain(column, constraint.args["kind"])
        return column

    def _constrain(self, column: ColumnDefinition, constraint: Any) -> None:
        match constraint:
            case exp.NotNullColumnConstraint():
                column.is_required = True
            case exp.PrimaryKeyColumnConstraint():
                column.is_key = column.is_required = True
            case exp.UniqueColumnConstraint():
                column.is_unique = True
            case exp.DefaultColumnConstraint():
                column.default = self.expression(constraint.this)
            case exp.ComputedColumnConstraint():
                column.generated = self.expression(constraint.this)
            case _:
                raise refusal(constraint)

    def _step(self, node: Any) -> tuple[str, str, Any]:
        match node:
            case exp.ColumnDef():
                return "add", name_of(node.this), self._definition_of(node)
            case exp.Drop():
                return "drop", _dropped(node), None
            case exp.RenameColumn():
                return "rename", name_of(node.this), name_of(node.args["to"])
            case exp.AlterRename():
                return "retitle", "", name_of(node.this)
            case exp.AlterColumn():
                column, is_null, is_dropped = arguments_of(node, "this", "allow_null", "drop")
                if is_null is not None:
                    return "drop not null" if is_dropped else "set not null", name_of(column), None
                return "drop default", name_of(column), None
        raise refusal(node)


def _dropped(node: Any) -> str:
    (name,) = node.args["tables"]
    return name_of(name)


def _function(node: Any) -> Nothing:
    """A function of a migration, which functions.py must have: the twin reads none written in SQL."""
    name = name_of(node.this.this)
    if name not in STRICT:
        raise refusal(node, f"{name}, which tests.support.postgres_twin.functions lacks, ")
    return Nothing()


_TRANSLATOR = StatementTranslator()


def parse_statement(sql: str) -> Statement:
    """Returns the parsed statement. Raises AssertionError for SQL that the twin does not know."""
    return _TRANSLATOR.statement(tree_of(sql))
