"""Reads SQL with sqlglot, as PostgreSQL means it, and names what the translation to the twin's syntax shares."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType

_TYPES = {"int": "integer", "bool": "boolean", "decimal": "numeric"}
"""PostgreSQL's name of types that sqlglot calls otherwise."""
_WITHOUT_EFFECT = frozenset({"typed", "nulls_first"})
"""Arguments that sqlglot sets and that change no answer of PostgreSQL."""


class _TwinDialect(Postgres):
    """PostgreSQL without what sqlglot translates: functions keep their names, paths of JSON and places in arrays."""

    INDEX_OFFSET = 0

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {
            name: PostgresParser.FUNCTION_PARSERS[name] for name in ("CAST", "EXTRACT")
        }
        LAMBDAS: ClassVar[dict[Any, Any]] = {
            kind: made for kind, made in PostgresParser.LAMBDAS.items() if kind != TokenType.ARROW
        }
        COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
            **PostgresParser.COLUMN_OPERATORS,
            TokenType.ARROW: lambda self, value, key: self.expression(exp.JSONExtract(this=value, expression=key)),
            TokenType.DARROW: lambda self, value, key: self.expression(
                exp.JSONExtractScalar(this=value, expression=key)
            ),
        }


_DIALECT = _TwinDialect()
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of each statement that it passes on as text


def tree_of(sql: str) -> Any:
    """Returns sqlglot's tree of a statement. Raises AssertionError for what is no single statement."""
    try:
        trees = [tree for tree in _DIALECT.parse(sql) if tree is not None]
    except SqlglotError as error:
        raise AssertionError(f"the PostgreSQL twin cannot read {sql}: {error}") from error
    assert len(trees) == 1, f"the PostgreSQL twin reads one statement at a time: {sql}"
    return trees[0]


def refusal(node: Any, what: str = "") -> AssertionError:
    """Returns the error for SQL that the twin does not know."""
    return AssertionError(
        f"the PostgreSQL twin cannot read {type(node).__name__} {what}in {node and node.sql('postgres')}"
    )


def arguments_of(node: Any, *names: str) -> list[Any]:
    """Returns the named arguments of a node (None or an empty list: absent), and refuses a node that has others."""
    unknown = [
        name
        for name, value in node.args.items()
        if value not in (None, False, []) and name not in names and name not in _WITHOUT_EFFECT
    ]
    if unknown:
        raise refusal(node, f"with {', '.join(unknown)} ")
    return [node.args.get(name) for name in names]


def name_of(node: Any) -> str:
    """Returns the name of a column, table, alias or sort key; unquoted names are in lower case."""
    while isinstance(node, exp.Column | exp.Table | exp.TableAlias | exp.Ordered):
        node = node.this
    if not isinstance(node, exp.Identifier):
        raise refusal(node, "as a name ")
    return str(node.this if node.args.get("quoted") else node.this.lower())


def type_name(kind: Any) -> str:
    """Returns PostgreSQL's name of a type."""
    if kind.this == exp.DataType.Type.ARRAY:
        return f"{type_name(kind.expressions[0])}[]"
    name = str(kind.sql("postgres")).lower()
    return _TYPES.get(name, name)
