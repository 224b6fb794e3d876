"""Compiles the columns of a query or of RETURNING."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.support.postgres_twin.expressions import compiled
from tests.support.postgres_twin.scopes import Function, OutputColumn, Scope
from tests.support.postgres_twin.syntax import Expression, Star


def output_columns(columns: Sequence[tuple[Expression, str]], scope: Scope) -> list[OutputColumn]:
    """Compiles the columns of a query or of RETURNING."""
    outputs: list[OutputColumn] = []
    for value, alias in columns:
        if isinstance(value, Star):
            outputs += _all_columns(value, scope)
        else:
            found = compiled(value, scope)
            outputs.append(OutputColumn(alias, found.of, found.type))
    return outputs


def _all_columns(star: Star, scope: Scope) -> Iterator[OutputColumn]:
    for relation in scope.relations:
        if not star.table or star.table == relation.alias:
            for position, (name, kind) in enumerate(zip(relation.names, relation.types, strict=True)):
                yield OutputColumn(name, _at(relation.place, position), kind)


def _at(place: int, position: int) -> Function:
    return lambda frame: frame[place][position]


def builder(outputs: Sequence[OutputColumn]) -> Function:
    functions = [output.of for output in outputs]
    if len(functions) == 1:
        (only,) = functions
        return lambda frame: (only(frame),)
    return lambda frame: tuple([function(frame) for function in functions])
