"""Parses SQL statements."""

from __future__ import annotations

from tests.support.postgres_twin.definition_parser import DefinitionParser
from tests.support.postgres_twin.syntax import (
    Body,
    Call,
    Cast,
    ColumnName,
    Delete,
    Expression,
    FromItem,
    Insert,
    Query,
    Select,
    Star,
    Statement,
    Update,
)

_ENDS_NAME = frozenset(
    [
        "from",
        "where",
        "group",
        "order",
        "limit",
        "offset",
        "for",
        "union",
        "returning",
        "on",
        "left",
        "cross",
        "join",
        "inner",
        "set",
        "values",
        "select",
        "as",
        "using",
        "lateral",
        "with",
        "and",
        "or",
        "when",
        "then",
        "else",
        "end",
        "into",
        "default",
    ]
)


class StatementParser(DefinitionParser):
    """Parses one statement."""

    def statement(self) -> Statement:
        found = self.definition() or self.query()
        self.skip(";")
        if self.token.kind != "end":
            raise self.failure("the end expected")
        return found

    def query(self) -> Query:
        named = []
        if self.skip("with"):
            named = self.listed(self._named)
        return Query(self._body(), named)

    def _named(self) -> tuple[str, Query]:
        name = self.name()
        self.expect("as", "(")
        query = self.query()
        self.expect(")")
        return name, query

    def _body(self) -> Body:
        if self.skip("insert", "into"):
            return self._insert()
        if self.skip("update"):
            return self._update()
        if self.skip("delete", "from"):
            return self._delete()
        if self.skip("values"):
            return self._values()
        self.expect("select")
        return self._select()

    def _values(self) -> Select:
        rows = self.listed(lambda: self.bracketed(self.expression))
        if len(rows) > 1:
            raise self.failure("VALUES of several rows")
        return Select(columns=[(item, "") for item in rows[0]])

    def _select(self) -> Select:
        select = Select()
        if self.skip("distinct", "on"):
            select.distinct_on = self.bracketed(self.expression)
        if self.token.text not in ("from", ")", "where") and self.token.kind != "end":
            select.columns = self.listed(self._target)
        if self.skip("from"):
            select.sources = self._sources()
        select.where = self.expression() if self.skip("where") else None
        select.group = self.listed(self.expression) if self.skip("group", "by") else ()
        if self.skip("union", "all"):
            self.expect("select")
            select.united = self._select()
            return select
        select.order = self.sort_keys()
        select.limit = self.expression() if self.skip("limit") else None
        select.offset = self.expression() if self.skip("offset") else None
        self._lock(select)
        return select

    def _lock(self, select: Select) -> None:
        if self.skip("for", "update"):
            select.lock = "update"
        elif self.skip("for", "share"):
            select.lock = "share"
        select.skips_locked = self.skip("skip", "locked")

    def _target(self) -> tuple[Expression, str]:
        value = self.expression()
        alias = ""
        if self.skip("as") or (self.token.kind in ("word", "name") and self.token.text not in _ENDS_NAME):
            alias = self.name()
        return value, alias or _title_of(value)

    def _sources(self) -> list[FromItem]:
        sources = [self._source("cross")]
        while True:
            if self.skip(",") or self.skip("cross", "join"):
                sources.append(self._source("cross"))
            elif self.skip("left", "join") or self.at("join") or self.at("inner", "join"):
                kind = "left" if not (self.skip("join") or self.skip("inner", "join")) else "inner"
                source = self._source(kind)
                self.expect("on")
                source.on = self.expression()
                sources.append(source)
            else:
                return sources

    def _source(self, join: str) -> FromItem:
        self.skip("lateral")
        source = FromItem(join=join)
        if self.skip("("):
            source.query = self.query()
            self.expect(")")
        else:
            name = self.name()
            if self.at("("):
                call = self._call(name)
                assert isinstance(call, Call)
                source.function = call
            else:
                source.table = name
        self._alias(source)
        return source

    def _alias(self, source: FromItem) -> None:
        if self.skip("as") or (self.token.kind in ("word", "name") and self.token.text not in _ENDS_NAME):
            source.alias = self.name()
            if self.at("("):
                pairs = self.bracketed(self._typed_name)
                source.columns = [name for name, _ in pairs]
                source.types = [kind for _, kind in pairs]

    def _typed_name(self) -> tuple[str, str]:
        name = self.name()
        return name, "" if self.at(",") or self.at(")") else self.type_name()

    def _table(self) -> tuple[str, str]:
        """Parses a table's name and alias."""
        name = self.name()
        if self.skip("as") or (self.token.kind in ("word", "name") and self.token.text not in _ENDS_NAME):
            return name, self.name()
        return name, name

    def _insert(self) -> Insert:
        table, _ = self._table()
        columns = self.bracketed(self.name) if self.at("(") else []
        insert = Insert(table, columns, self.query())
        if self.skip("on", "conflict"):
            insert.target = self.bracketed(self.name) if self.at("(") else ()
            if self.skip("do", "nothing"):
                insert.on_conflict = "nothing"
            else:
                self.expect("do", "update", "set")
                insert.on_conflict = "update"
                insert.assignments = self.listed(self._assignment)
                insert.where = self.expression() if self.skip("where") else None
        insert.returning = self._returning()
        return insert

    def _assignment(self) -> tuple[str, Expression]:
        name = self.name()
        self.expect("=")
        return name, self.expression()

    def _returning(self) -> list[tuple[Expression, str]]:
        return self.listed(self._target) if self.skip("returning") else []

    def _update(self) -> Update:
        table, alias = self._table()
        self.expect("set")
        assignments = self.listed(self._assignment)
        sources = self._sources() if self.skip("from") else []
        where = self.expression() if self.skip("where") else None
        return Update(table, alias, assignments, sources, where, self._returning())

    def _delete(self) -> Delete:
        table, alias = self._table()
        where = self.expression() if self.skip("where") else None
        return Delete(table, alias, where, self._returning())


def _title_of(value: Expression) -> str:
    """Returns PostgreSQL's name of a column without an alias."""
    if isinstance(value, Cast):
        inner = _title_of(value.value)
        return value.type if inner == "?column?" else inner
    if isinstance(value, ColumnName):
        return value.name
    if isinstance(value, Call):
        return "extract" if value.name.startswith("extract_") else value.name
    return "" if isinstance(value, Star) else "?column?"


def parse_statement(sql: str) -> Statement:
    """Returns the parsed statement. Raises AssertionError for SQL that the twin does not know."""
    return StatementParser(sql).statement()
