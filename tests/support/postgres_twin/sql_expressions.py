"""Translates sqlglot's expressions to the twin's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from tests.support.postgres_twin.sql_dialect import arguments_of, name_of, refusal, type_name
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
    Query,
    RowValue,
    SortKey,
    Star,
    Subquery,
    Subscript,
)

_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_BINARY = {
    **_COMPARISONS,
    exp.And: "and",
    exp.Or: "or",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.RegexpLike: "~",
    exp.Like: "like",
    exp.NullSafeNEQ: "distinct",
}


class ExpressionTranslator:
    """Translates expressions; a subclass translates the queries in them."""

    def __init__(self) -> None:
        self._translations: Mapping[type[Any], Callable[[Any], Expression]] = {
            exp.Anonymous: self.call,
            exp.Array: self._array,
            exp.Between: self._between,
            exp.Boolean: lambda node: Const(node.this),
            exp.Bracket: self._bracket,
            exp.Case: self._case,
            exp.Cast: lambda node: Cast(self.expression(node.this), type_name(node.args["to"])),
            exp.Column: self._column,
            exp.Exists: lambda node: Subquery("exists", self.query(node.this)),
            exp.Extract: lambda node: Call(f"extract_{node.name.lower()}", (self.expression(node.expression),)),
            exp.Filter: self._filter,
            exp.In: self._in,
            exp.Interval: self._interval,
            exp.Is: self._is,
            exp.Literal: _literal,
            exp.Neg: self._negated,
            exp.Not: lambda node: Operation("not", (self.expression(node.this),)),
            exp.Null: lambda _: Const(None),
            exp.NullSafeEQ: self._not_distinct,
            exp.Parameter: lambda node: Param(int(node.name) - 1),
            exp.Paren: lambda node: self.expression(node.this),
            exp.Placeholder: lambda node: Param(node.this),
            exp.Star: lambda _: Star(),
            exp.Subquery: lambda node: Subquery("scalar", self.query(node.this)),
            exp.Tuple: lambda node: RowValue(self.all_of(node.expressions)),
            exp.Unnest: lambda node: Call("unnest", self.all_of(node.expressions)),
            exp.Window: self._window,
        }

    def query(self, node: Any) -> Query:
        raise NotImplementedError

    def expression(self, node: Any) -> Expression:
        kind = type(node)
        if node.args.get("negate"):
            node.set("negate", None)
            return Operation("not", (self.expression(node),))
        if kind in _BINARY:
            return self._binary(node, _BINARY[kind])
        if kind not in self._translations:
            raise refusal(node)
        return self._translations[kind](node)

    def all_of(self, nodes: Any) -> list[Expression]:
        return [self.expression(node) for node in nodes or ()]

    def optional(self, node: Any) -> Expression | None:
        """Returns the expression of a clause, or None without the clause."""
        return None if node is None else self.expression(node.expression if "expression" in node.args else node.this)

    def sort_keys(self, order: Any) -> list[SortKey]:
        return [self._sort_key(key) for key in (order.expressions if order else ())]

    def _sort_key(self, key: Any) -> SortKey:
        value, descends, is_null_first = arguments_of(key, "this", "desc", "nulls_first")
        if bool(is_null_first) != bool(descends):
            raise refusal(key, "with NULLS FIRST or LAST ")
        return SortKey(self.expression(value), bool(descends))

    def call(self, node: Any) -> Expression:
        name, arguments = arguments_of(node, "this", "expressions")
        name, arguments = name.lower(), list(arguments or ())
        if name == "array" and isinstance(arguments[0], exp.Query):
            return Subquery("array", self.query(arguments[0]))
        if arguments and isinstance(arguments[0], exp.Star):
            return Call(name, (), is_star=True)
        order = arguments[-1] if arguments and isinstance(arguments[-1], exp.Order) else None
        if order is not None:
            arguments[-1] = order.this
        values = [argument.expression if isinstance(argument, exp.Kwarg) else argument for argument in arguments]
        return Call(name, self.all_of(values), self.sort_keys(order))

    def _binary(self, node: Any, operator: str) -> Expression:
        left, right = arguments_of(node, "this", "expression")
        if type(node) in _COMPARISONS:
            is_all = isinstance(right, exp.All) or (isinstance(right, exp.Anonymous) and right.name.lower() == "all")
            if is_all or isinstance(right, exp.Any):
                array = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this
                return Quantified(operator, self.expression(left), self.expression(array), is_all)
        return Operation(operator, (self.expression(left), self.expression(right)))

    def _column(self, node: Any) -> Expression:
        name, table = arguments_of(node, "this", "table")
        if isinstance(name, exp.Star):
            return Star(name_of(table))
        if table is None and name_of(name) == "current_user":
            return Call("current_user", ())
        return ColumnName(name_of(name), name_of(table) if table else "")

    def _negated(self, node: Any) -> Expression:
        operand = self.expression(node.this)
        return Const(-operand.value) if isinstance(operand, Const) else Operation("negate", (operand,))

    def _is(self, node: Any) -> Expression:
        if not isinstance(node.expression, exp.Null):
            raise refusal(node)
        return Operation("isnull", (self.expression(node.this),))

    def _not_distinct(self, node: Any) -> Expression:
        sides = (self.expression(node.this), self.expression(node.expression))
        return Operation("not", (Operation("distinct", sides),))

    def _between(self, node: Any) -> Expression:
        value, low, high = map(self.expression, arguments_of(node, "this", "low", "high"))
        return Operation("and", (Operation(">=", (value, low)), Operation("<=", (value, high))))

    def _in(self, node: Any) -> Expression:
        value, items, query = arguments_of(node, "this", "expressions", "query")
        if query is not None:
            return Subquery("in", self.query(query), self.expression(value))
        return InList(self.expression(value), self.all_of(items))

    def _case(self, node: Any) -> Expression:
        cases, default = arguments_of(node, "ifs", "default")
        whens = [(self.expression(case.this), self.expression(case.args["true"])) for case in cases]
        return Case(whens, None if default is None else self.expression(default))

    def _interval(self, node: Any) -> Expression:
        amount, unit = arguments_of(node, "this", "unit")
        return Cast(Const(f"{amount.name} {unit.name.lower()}" if unit else amount.name), "interval")

    def _array(self, node: Any) -> Expression:
        (items,) = arguments_of(node, "expressions", "bracket_notation")[:1]
        if len(items) == 1 and isinstance(items[0], exp.Query):
            return Subquery("array", self.query(items[0]))
        return ArrayItems(self.all_of(items))

    def _bracket(self, node: Any) -> Expression:
        array, (place,) = arguments_of(node, "this", "expressions")
        if isinstance(place, exp.Slice):
            first, last = map(self.expression, arguments_of(place, "this", "expression"))
            return Subscript(self.expression(array), first, last)
        return Subscript(self.expression(array), self.expression(place))

    def _filter(self, node: Any) -> Expression:
        call = self.expression(node.this)
        assert isinstance(call, Call)
        call.where = self.expression(node.expression.this)
        return call

    def _window(self, node: Any) -> Expression:
        function, partition, order, _ = arguments_of(node, "this", "partition_by", "order", "over")
        call = self.expression(function)
        assert isinstance(call, Call)
        call.partition, call.order = self.all_of(partition), self.sort_keys(order)
        return call


def _literal(node: Any) -> Expression:
    text = str(node.this)
    if node.is_string:
        return Const(text)
    return Const(float(text) if "." in text else int(text))
