"""Parses the definitions of tables that migrations contain, LOCK TABLE and SET."""

from __future__ import annotations

from typing import Any

from tests.support.postgres_twin.expression_parser import ExpressionParser
from tests.support.postgres_twin.functions import STRICT
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


class DefinitionParser(ExpressionParser):
    """Parses definitions. Storage options have no effect in memory and are skipped."""

    def definition(self) -> Statement | None:
        """Returns None if the statement is not a definition."""
        if self.skip("create"):
            return self._create()
        if self.skip("alter"):
            self.next()
            return self._alter()
        if self.skip("drop"):
            return self._drop()
        if self.skip("lock", "table"):
            return self._lock_table()
        if self.skip("copy"):
            return Copy(self.name(), self.bracketed(self.name))
        if self.skip("truncate"):
            return Truncate(self.listed(self.name))
        if self.at("set"):
            self._skip_rest()
            return Nothing()
        return None

    def _skip_rest(self) -> None:
        while self.token.kind != "end":
            self.next()

    def _create(self) -> Statement:
        is_unique = self.skip("unique")
        kind = self.next().text
        if kind == "function":
            return self._function()
        if_not_exists = self.skip("if", "not", "exists")
        name = self.name()
        if kind == "index":
            return self._index(name, is_unique)
        if kind == "view":
            self.expect("as")
            return CreateView(name, self.query())
        if self.skip("partition", "of"):
            return self._partition(name, if_not_exists)
        return self._columns(CreateTable(name, [], []))

    def _function(self) -> Nothing:
        """A function of a migration, which functions.py must have: the twin reads none written in SQL."""
        name = self.name()
        if name not in STRICT:
            raise self.failure(f"function {name} is not in tests.support.postgres_twin.functions")
        self._skip_rest()
        return Nothing()

    def _index(self, name: str, is_unique: bool) -> CreateIndex:
        self.expect("on")
        table = self.name()
        if self.skip("using"):
            self.next()
        self.expect("(")
        columns = [self.name()]
        while not self.skip(")"):
            token = self.next()
            if token.kind in ("word", "name"):
                columns.append(token.text)
        self._skip_rest()
        return CreateIndex(name, table, columns, is_unique)

    def _partition(self, name: str, _: bool) -> CreatePartition:
        parent = self.name()
        self.expect("for", "values", "from", "(")
        since = self.next().value
        self.expect(")", "to", "(")
        until = self.next().value
        self._skip_rest()
        return CreatePartition(name, parent, since, until)

    def _columns(self, table: CreateTable) -> CreateTable:
        self.expect("(")
        while True:
            if self.skip("primary", "key") or self.skip("unique"):
                table.keys.append(self.bracketed(self.name))
            elif self.skip("constraint"):
                table.checks.append(self._check(self.name()))
            elif self.at("check"):
                table.checks.append(self._check(f"{table.table}_check"))
            else:
                table.columns.append(self._column())
            if self.skip(")"):
                break
            self.expect(",")
        if self.skip("partition", "by", "range"):
            (table.partitioned_by,) = self.bracketed(self.name)
        self._skip_rest()
        return table

    def _check(self, name: str) -> tuple[str, Expression]:
        self.expect("check", "(")
        condition = self.expression()
        self.expect(")")
        return name, condition

    def _column(self) -> ColumnDefinition:
        name, kind = self.name(), self.type_name()
        column = ColumnDefinition(name, _SERIALS.get(kind, kind))
        if kind in _SERIALS:
            column.default, column.is_required = Call("nextval", ()), True
        while True:
            if self.skip("not", "null"):
                column.is_required = True
            elif self.skip("primary", "key"):
                column.is_key = column.is_required = True
            elif self.skip("unique"):
                column.is_unique = True
            elif self.skip("default"):
                column.default = self.expression()
            elif self.skip("generated", "always", "as", "("):
                column.generated = self.expression()
                self.expect(")", "stored")
            else:
                return column

    def _alter(self) -> AlterTable:
        alter = AlterTable(self.name(), [])
        alter.steps = self.listed(self._step)
        return alter

    def _step(self) -> tuple[str, str, Any]:
        if self.skip("add", "column"):
            column = self._column()
            return "add", column.name, column
        if self.skip("drop", "column"):
            return "drop", self.name(), None
        if self.skip("rename", "column"):
            old = self.name()
            self.expect("to")
            return "rename", old, self.name()
        if self.skip("rename", "to"):
            return "retitle", "", self.name()
        self.expect("alter", "column")
        name = self.name()
        for verb in (("set", "not", "null"), ("drop", "not", "null"), ("drop", "default")):
            if self.skip(*verb):
                return " ".join(verb), name, None
        self.expect("set")
        self.next()  # STORAGE or STATISTICS, and its value
        self.next()
        return "nothing", name, None

    def _drop(self) -> Drop:
        kind = self.next().text
        if_exists = self.skip("if", "exists")
        name = self.name()
        self._skip_rest()
        return Drop(kind, name, if_exists)

    def _lock_table(self) -> LockTable:
        name = self.name()
        self.expect("in")
        words = []
        while not self.skip("mode"):
            words.append(self.next().text)
        return LockTable(name, " ".join(words))
