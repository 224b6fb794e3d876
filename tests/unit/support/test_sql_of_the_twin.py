"""SQL that the twin of PostgreSQL does not know is refused, whatever sqlglot makes of it."""

from __future__ import annotations

import pytest
from tests.support.postgres_twin.sql_statements import parse_statement
from tests.support.postgres_twin.syntax import Call, Cast, ColumnName, Const, Operation, Query, Select, Subscript


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t GROUP BY a HAVING count(*) > 1",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t FOR UPDATE NOWAIT",
        "SELECT a FROM t RIGHT JOIN u ON true",
        "SELECT a FROM t FULL JOIN u ON true",
        "SELECT a FROM t UNION SELECT a FROM u",
        "SELECT a FROM t ORDER BY a NULLS FIRST",
        "SELECT sum(DISTINCT a) FROM t",
        "SELECT sum(a) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) FROM t",
        'SELECT a COLLATE "C" FROM t',
        "SELECT a FROM t TABLESAMPLE SYSTEM (1)",
        "SELECT a IS TRUE FROM t",
        "INSERT INTO t (a) VALUES ($1), ($2)",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT ON CONSTRAINT c DO NOTHING",
        "UPDATE t SET (a, b) = (1, 2)",
        "DELETE FROM t USING u WHERE true",
        "CREATE TABLE t (a integer REFERENCES u)",
        "ALTER TABLE t ALTER COLUMN a TYPE text",
        "ALTER TABLE t ALTER COLUMN a SET STORAGE EXTERNAL, ADD CONSTRAINT c CHECK (a)",
        "CREATE FUNCTION unknown_here(integer) RETURNS integer LANGUAGE sql AS $$SELECT 1$$",
        "GRANT SELECT ON t TO u",
        "SELECT 1; SELECT 2",
        "SELECT (",
    ],
)
def test_sql_that_the_twin_does_not_know_is_refused(sql: str) -> None:
    with pytest.raises(AssertionError, match="the PostgreSQL twin"):
        parse_statement(sql)


def test_functions_keys_of_json_and_places_of_arrays_are_read_as_written() -> None:
    parsed = parse_statement("SELECT Coalesce(a -> 'b', d), x[1], interval '5 minutes', now()::numeric FROM t")
    assert isinstance(parsed, Query)
    assert isinstance(parsed.body, Select)
    assert parsed.body.columns == [
        (Call("coalesce", [Operation("->", (ColumnName("a"), Const("b"))), ColumnName("d")], []), "coalesce"),
        (Subscript(ColumnName("x"), Const(1)), "?column?"),
        (Cast(Const("5 minutes"), "interval"), "interval"),
        (Cast(Call("now", [], []), "numeric"), "now"),
    ]
