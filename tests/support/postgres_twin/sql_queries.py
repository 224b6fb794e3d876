"""Translates sqlglot's queries and changes of rows to the twin's."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from tests.support.postgres_twin.sql_dialect import arguments_of, name_of, refusal, type_name
from tests.support.postgres_twin.sql_expressions import ExpressionTranslator
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
    Update,
)

_ENDING = ("order", "limit", "offset", "locks")


class QueryTranslator(ExpressionTranslator):
    """Translates SELECT, VALUES, INSERT, UPDATE and DELETE."""

    def query(self, node: Any) -> Query:
        if isinstance(node, exp.Subquery):
            (node, _) = arguments_of(node, "this", "alias")
        named = node.args.get("with_")
        tables = (
            [(name_of(table.args["alias"]), self.query(table.this)) for table in named.expressions] if named else []
        )
        return Query(self._body(node), tables)

    def _body(self, node: Any) -> Body:
        if isinstance(node, exp.Insert):
            return self._insert(node)
        if isinstance(node, exp.Update):
            return self._update(node)
        if isinstance(node, exp.Delete):
            table, where, returning, _ = arguments_of(node, "this", "where", "returning", "with_")
            return Delete(*_table(table), self.optional(where), self._returning(returning))
        if isinstance(node, exp.Values):
            (rows,) = arguments_of(node, "expressions")
            if len(rows) > 1:
                raise refusal(node, "of several rows ")
            return Select(columns=[(value, "") for value in self.all_of(rows[0].expressions)])
        if isinstance(node, exp.Union):
            return self._union(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        raise refusal(node)

    def _union(self, node: Any) -> Select:
        """UNION ALL of any number of queries: each has the rest of them, and the last the order of all."""
        first, rest, *_ = arguments_of(node, "this", "expression", *_ENDING, "with_")
        if node.args.get("distinct"):
            raise refusal(node)
        selects = self._body(first), self._body(rest)
        assert isinstance(selects[0], Select)
        assert isinstance(selects[1], Select)
        last = selects[0]
        while last.united is not None:
            last = last.united
        last.united, last.order = selects[1], ()
        self._end(selects[1], node)
        return selects[0]

    def _select(self, node: Any) -> Select:
        distinct, columns, source, joins, where, group, *_ = arguments_of(
            node, "distinct", "expressions", "from_", "joins", "where", "group", *_ENDING, "with_"
        )
        select = Select(columns=[self._target(column) for column in columns])
        if distinct is not None:
            (on,) = arguments_of(distinct, "on")
            if on is None:
                raise refusal(distinct, "without ON ")
            select.distinct_on = self.all_of(on.expressions)
        if source is not None:
            select.sources = self._sources(source.this, joins)
        select.where = self.optional(where)
        if group is not None:
            select.group = self.all_of(*arguments_of(group, "expressions"))
        self._end(select, node)
        return select

    def _end(self, select: Select, node: Any) -> None:
        """Adds order, limit, offset and locks."""
        order, limit, offset, locks = (node.args.get(name) for name in _ENDING)
        select.order = self.sort_keys(order)
        select.limit, select.offset = self.optional(limit), self.optional(offset)
        for lock in locks or ():
            update, wait = arguments_of(lock, "update", "wait")
            if wait:
                raise refusal(node, "with NOWAIT ")
            select.lock, select.skips_locked = "update" if update else "share", wait is False

    def _target(self, node: Any) -> tuple[Expression, str]:
        if isinstance(node, exp.Alias):
            return self.expression(node.this), name_of(node.args["alias"])
        value = self.expression(node)
        return value, _title_of(value)

    def _sources(self, first: Any, joins: Any) -> list[FromItem]:
        sources = [self._source(first, "cross")]
        for join in (*(first.args.get("joins") or ()), *(joins or ())):
            table, side, kind, on = arguments_of(join, "this", "side", "kind", "on")
            if side not in (None, "", "LEFT") or kind not in (None, "", "CROSS", "INNER"):
                raise refusal(join)
            source = self._source(table, "left" if side else "inner" if on is not None else "cross")
            source.on = None if on is None else self.expression(on)
            sources += [source, *self._sources(table, ())[1:]]
        return sources

    def _source(self, node: Any, join: str) -> FromItem:
        source, alias = FromItem(join=join), node.args.get("alias")
        if isinstance(node, exp.Lateral):
            node = node.this
        if isinstance(node, exp.Table):
            (what, *_) = arguments_of(node, "this", "alias", "joins")
            if isinstance(what, exp.Identifier):
                source.table = name_of(what)
            else:
                source.function = self._function(what)
        elif isinstance(node, exp.Subquery):
            (what, *_) = arguments_of(node, "this", "alias", "joins")
            source.query = self.query(what)
        else:
            source.function = self._function(node)
        if alias is not None:
            name, columns = arguments_of(alias, "this", "columns")
            source.alias = name_of(name) if name else ""
            typed = [(column.this, column.args["kind"]) if isinstance(column, exp.ColumnDef) else (column, None)
                     for column in columns or ()]  # fmt: skip
            source.columns = [name_of(column) for column, _ in typed]
            source.types = [type_name(kind) if kind else "" for _, kind in typed]
        return source

    def _function(self, node: Any) -> Call:
        call = self.expression(node)
        assert isinstance(call, Call)
        return call

    def _insert(self, node: Any) -> Insert:
        into, source, conflict, returning, _ = arguments_of(
            node, "this", "expression", "conflict", "returning", "with_"
        )
        is_listed = isinstance(into, exp.Schema)
        columns = [name_of(column) for column in into.expressions] if is_listed else []
        insert = Insert(_table(into.this if is_listed else into)[0], columns, self.query(source))
        if conflict is not None:
            assignments, action, keys, where = arguments_of(conflict, "expressions", "action", "conflict_keys", "where")
            insert.target = [name_of(key) for key in keys or ()]
            insert.on_conflict = "update" if action.name == "DO UPDATE" else "nothing"
            insert.assignments = self._assignments(assignments)
            insert.where = self.optional(where)
        insert.returning = self._returning(returning)
        return insert

    def _update(self, node: Any) -> Update:
        table, assignments, source, where, returning, _ = arguments_of(
            node, "this", "expressions", "from_", "where", "returning", "with_"
        )
        return Update(
            *_table(table),
            self._assignments(assignments),
            self._sources(source.this, ()) if source is not None else [],
            self.optional(where),
            self._returning(returning),
        )

    def _assignments(self, nodes: Any) -> list[tuple[str, Expression]]:
        return [(name_of(node.this), self.expression(node.expression)) for node in nodes or ()]

    def _returning(self, node: Any) -> list[tuple[Expression, str]]:
        return [self._target(column) for column in node.expressions] if node is not None else []


def _table(node: Any) -> tuple[str, str]:
    """Returns a table's name and alias."""
    name, alias = arguments_of(node, "this", "alias")
    return name_of(name), name_of(alias or name)


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
