"""Compiles SQL expressions to functions of a frame, with SQL's three truth values: true, false and None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
from tests.support.postgres_twin.functions import (
    AGGREGATES,
    LENIENT,
    OPERATORS,
    STRICT,
    elements_of,
)
from tests.support.postgres_twin.scopes import EXECUTION, PARAMETERS, Compiled, Frame, Function, Scope
from tests.support.postgres_twin.syntax import (
    ArrayItems,
    Call,
    Case,
    Cast,
    ColumnName,
    Const,
    Expression,
    InList,
    Operation,
    Param,
    Quantified,
    RowValue,
    Subquery,
    Subscript,
)
from tests.support.postgres_twin.values import WireArray, cast_to

_BOOLEAN = ("=", "<>", "<", "<=", ">", ">=", "~", "like", "and", "or", "not", "isnull", "distinct")
_TYPES = {
    "->": "jsonb", "#>": "jsonb", "->>": "text", "#>>": "text", "jsonb_typeof": "text", "split_part": "text",
    "jsonb_build_object": "jsonb", "count": "bigint", "now": "timestamptz", "clock_timestamp": "timestamptz",
    "make_interval": "interval", "extract_epoch": "numeric", "row_number": "bigint", "array_send": "bytea",
}  # fmt: skip


def compiled(expression: Expression, scope: Scope) -> Compiled:
    """Compiles an expression. Raises AssertionError for one that the twin does not know."""
    return _COMPILERS[type(expression)](expression, scope)


def function_of(expression: Expression, scope: Scope) -> Function:
    return compiled(expression, scope).of


def alike(expressions: Sequence[Expression], scope: Scope) -> tuple[list[Function], str]:
    """Compiles expressions of one type, which literals in quotes take from the others."""
    found = [compiled(expression, scope) for expression in expressions]
    kind = next((one.type for one in found if one.type not in ("", "unknown")), "")
    if kind and not kind.endswith("[]") and kind != "text":
        found = [_literal(one, kind) for one in found]
    return [one.of for one in found], kind or found[0].type


def _literal(found: Compiled, kind: str) -> Compiled:
    if found.type != "unknown" or kind == "numeric":
        return found
    value = cast_to(kind)(found.of([]))
    return Compiled(lambda _: value, kind)


def _const(node: Const, _: Scope) -> Compiled:
    value = node.value
    return Compiled(lambda _: value, "unknown" if isinstance(value, str) else "")


def _param(node: Param, _: Scope) -> Compiled:
    name: Any = node.name
    return Compiled(lambda frame: frame[PARAMETERS][name], "")


def _column(node: ColumnName, scope: Scope) -> Compiled:
    found = scope.find(node.name, node.table)
    if found is None:
        raise asyncpg.UndefinedColumnError(f'column "{node.name}" does not exist')
    place, position, kind = found
    return Compiled(lambda frame: frame[place][position], kind)


def _operation(node: Operation, scope: Scope) -> Compiled:
    special = _SPECIAL.get(node.name)
    if special is not None:
        return Compiled(special([function_of(argument, scope) for argument in node.arguments]), "boolean")
    operands = node.arguments
    if node.name in _BOOLEAN and any(isinstance(operand, RowValue) for operand in operands):
        (left, right), kind = [function_of(operand, scope) for operand in operands], ""
    elif node.name in ("->", "->>", "#>", "#>>", "-"):
        (left, right), kind = [function_of(operand, scope) for operand in operands], compiled(operands[0], scope).type
    else:
        (left, right), kind = alike(operands, scope)
    apply = OPERATORS[node.name]

    def run(frame: Frame) -> Any:
        first = left(frame)
        if first is None:
            return None
        second = right(frame)
        return None if second is None else apply(first, second)

    comparison = _COMPARED.get(node.name)
    made = run if comparison is None else comparison(left, right)
    return Compiled(made, "boolean" if node.name in _BOOLEAN else _TYPES.get(node.name, kind))


def _equal(left: Function, right: Function) -> Function:
    def run(frame: Frame) -> Any:
        first, second = left(frame), right(frame)
        return None if first is None or second is None else first == second

    return run


_COMPARED: dict[str, Callable[[Function, Function], Function]] = {"=": _equal}


def _and(arguments: Sequence[Function]) -> Function:
    left, right = arguments

    def run(frame: Frame) -> Any:
        first = left(frame)
        if first is False:
            return False
        second = right(frame)
        return False if second is False else None if first is None else second

    return run


def _or(arguments: Sequence[Function]) -> Function:
    left, right = arguments

    def run(frame: Frame) -> Any:
        first = left(frame)
        if first:
            return True
        second = right(frame)
        return True if second else None if first is None else second

    return run


def _not(arguments: Sequence[Function]) -> Function:
    (operand,) = arguments

    def run(frame: Frame) -> Any:
        value = operand(frame)
        return None if value is None else not value

    return run


def _is_null(arguments: Sequence[Function]) -> Function:
    (operand,) = arguments
    return lambda frame: operand(frame) is None


def _distinct(arguments: Sequence[Function]) -> Function:
    left, right = arguments
    return lambda frame: bool(left(frame) != right(frame))


def _negated(arguments: Sequence[Function]) -> Function:
    (operand,) = arguments
    return lambda frame: None if (value := operand(frame)) is None else -value


_SPECIAL = {
    "and": _and,
    "or": _or,
    "not": _not,
    "isnull": _is_null,
    "distinct": _distinct,
    "negate": _negated,
}


def _cast(node: Cast, scope: Scope) -> Compiled:
    value = compiled(node.value, scope)
    if value.type == node.type:
        return value
    apply, inner = cast_to(node.type), value.of
    if isinstance(node.value, Const) and node.value.value is not None:
        constant = apply(node.value.value)
        return Compiled(lambda _: constant, node.type)

    def run(frame: Frame) -> Any:
        found = inner(frame)
        return None if found is None else apply(found)

    return Compiled(run, node.type)


def _case(node: Case, scope: Scope) -> Compiled:
    conditions = [function_of(condition, scope) for condition, _ in node.whens]
    results = [result for _, result in node.whens]
    values, kind = alike([*results, Const(None) if node.otherwise is None else node.otherwise], scope)
    branches = list(zip(conditions, values[:-1], strict=True))
    otherwise = values[-1]

    def run(frame: Frame) -> Any:
        for condition, value in branches:
            if condition(frame):
                return value(frame)
        return otherwise(frame)

    return Compiled(run, kind)


def _row(node: RowValue, scope: Scope) -> Compiled:
    items = [function_of(item, scope) for item in node.items]
    return Compiled(lambda frame: tuple(item(frame) for item in items), "record")


def _array_items(node: ArrayItems, scope: Scope) -> Compiled:
    items, kind = alike(node.items, scope)
    return Compiled(lambda frame: [item(frame) for item in items], f"{kind}[]")


def _in_list(node: InList, scope: Scope) -> Compiled:
    (value, *items), _ = alike([node.value, *node.items], scope)

    def run(frame: Frame) -> Any:
        found = value(frame)
        return None if found is None else any(item(frame) == found for item in items)

    return Compiled(run, "boolean")


def _quantified(node: Quantified, scope: Scope) -> Compiled:
    value, array = function_of(node.value, scope), function_of(node.array, scope)
    apply, is_all = OPERATORS[node.operator], node.is_all
    by_membership = (node.operator, is_all) in (("=", False), ("<>", True))

    def run(frame: Frame) -> Any:
        found, items = value(frame), array(frame)
        if found is None or items is None:
            return None
        if by_membership:
            return (found in items) is not is_all
        results = (apply(found, item) for item in items)
        return all(results) if is_all else any(results)

    return Compiled(run, "boolean")


def _subscript(node: Subscript, scope: Scope) -> Compiled:
    array, first = compiled(node.array, scope), function_of(node.first, scope)
    items, last = array.of, None if node.last is None else function_of(node.last, scope)

    def run(frame: Frame) -> Any:
        found, start = items(frame), first(frame)
        if found is None or start is None:
            return None
        found = elements_of(found) if isinstance(found, WireArray) else found
        if last is not None:
            return found[start - 1 : last(frame)]
        return found[start - 1] if 0 < start <= len(found) else None

    return Compiled(run, array.type if last is not None else array.type.removesuffix("[]"))


def _subquery(node: Subquery, scope: Scope) -> Compiled:
    query = scope.statement.compile_query(node.query, scope)
    rows = query.run
    if node.kind == "exists":
        return Compiled(lambda frame: bool(rows(frame)), "boolean")
    if node.kind == "array":
        return Compiled(lambda frame: [row[0] for row in rows(frame)], f"{query.types[0]}[]")
    if node.kind == "in":
        return Compiled(_within(node, rows, scope), "boolean")

    def run(frame: Frame) -> Any:
        found = rows(frame)
        if len(found) > 1:
            raise asyncpg.CardinalityViolationError("more than one row returned by a subquery used as an expression")
        return found[0][0] if found else None

    return Compiled(run, query.types[0])


def _within(node: Subquery, rows: Function, scope: Scope) -> Function:
    assert node.left is not None
    left, is_row = function_of(node.left, scope), isinstance(node.left, RowValue)

    def run(frame: Frame) -> Any:
        found = left(frame)
        if found is None:
            return None
        return any((row if is_row else row[0]) == found for row in rows(frame))

    return run


def _call(node: Call, scope: Scope) -> Compiled:
    name = node.name
    kind = _TYPES.get(name, "")
    if node.partition is not None:
        return Compiled(_at_place(scope.windows, node, scope), kind)
    if name in AGGREGATES or name in ("count", "array_agg"):
        inner = compiled(node.arguments[0], scope).type if node.arguments else ""
        return Compiled(_at_place(scope.aggregates, node, scope), kind or inner + "[]" * (name == "array_agg"))
    if name in LENIENT:
        arguments, common = alike(node.arguments, scope) if name != "jsonb_build_object" else _plain(node, scope)
        return Compiled(_lenient(name, arguments), kind or common)
    if name in SESSION:
        arguments = [function_of(argument, scope) for argument in node.arguments]
        scope.statement.locks |= name.startswith("pg_advisory")
        session = SESSION[name]
        return Compiled(lambda frame: session(frame[EXECUTION], *[one(frame) for one in arguments]), kind)
    if name not in STRICT:
        raise AssertionError(f"the PostgreSQL twin has no function {name}")
    arguments = [function_of(argument, scope) for argument in node.arguments]
    strict = STRICT[name]

    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        return None if None in values else strict(*values)

    return Compiled(run, kind)


def _lenient(name: str, arguments: Sequence[Function]) -> Function:
    apply = LENIENT[name]
    if len(arguments) == 2:
        first, second = arguments
        if name == "coalesce":
            return lambda frame: second(frame) if (value := first(frame)) is None else value
        return lambda frame: apply(first(frame), second(frame))
    return lambda frame: apply(*[argument(frame) for argument in arguments])


def _plain(node: Call, scope: Scope) -> tuple[list[Function], str]:
    return [function_of(argument, scope) for argument in node.arguments], "jsonb"


def _at_place(found: list[tuple[Call, int]] | None, node: Call, scope: Scope) -> Function:
    if found is None:
        raise AssertionError(f"the PostgreSQL twin does not expect {node.name} here")
    place = scope.statement.place()
    found.append((node, place))
    return lambda frame: frame[place]


def _notify(execution: Any, channel: str, payload: str) -> str:
    execution.transaction.notices[channel, payload] = None
    return ""


def _backend(execution: Any, pid: int) -> bool:
    return bool(execution.server.end_session(pid))


SESSION: dict[str, Callable[..., Any]] = {
    "now": lambda execution: execution.now,
    "clock_timestamp": lambda execution: execution.server.clock.now(),
    "pg_notify": _notify,
    "pg_advisory_xact_lock": lambda execution, key: execution.server.lock_key(execution.transaction, key) or "",
    "pg_try_advisory_lock": lambda execution, key: execution.server.try_key(execution.session, key),
    "pg_backend_pid": lambda execution: execution.session.pid,
    "pg_terminate_backend": _backend,
    "current_user": lambda execution: execution.session.service,
    "current_database": lambda _: "slackwater",
    "current_schema": lambda execution: execution.session.service,
    "to_regnamespace": lambda _, name: name,
    "to_regclass": lambda execution, name: name if name in execution.tables else None,
    "current_setting": lambda execution, _: "off" if execution.server.takes_writes else "on",
    "pg_sleep": lambda *_: "",
}
"""Functions of the session and the server. They are called with NULL arguments, too, which no statement gives."""

_COMPILERS: dict[type, Callable[[Any, Scope], Compiled]] = {
    Const: _const,
    Param: _param,
    ColumnName: _column,
    Operation: _operation,
    Call: _call,
    Cast: _cast,
    Case: _case,
    RowValue: _row,
    ArrayItems: _array_items,
    Subquery: _subquery,
    InList: _in_list,
    Quantified: _quantified,
    Subscript: _subscript,
}
