"""Parses SQL expressions, with PostgreSQL's precedence of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
from tests.support.postgres_twin.tokens import SqlToken, tokens_of

T = TypeVar("T")

_COMPARISONS = ("=", "<>", "!=", "<", ">", "<=", ">=")
_OTHERS = ("||", "->", "->>", "#>", "#>>", "~", "!~")
_CONSTANTS = {"true": True, "false": False, "null": None}
_TYPES = {"int": "integer", "int4": "integer", "int8": "bigint", "float8": "double precision", "bool": "boolean"}


class ExpressionParser:
    """A position in the tokens of one statement."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens = tokens_of(sql)
        self._place = 0

    @property
    def token(self) -> SqlToken:
        return self._tokens[self._place]

    def next(self) -> SqlToken:
        token = self.token
        self._place += 1
        return token

    def at(self, *texts: str) -> bool:
        """Returns whether the next tokens are these words or operators."""
        ahead = self._tokens[self._place : self._place + len(texts)]
        return [token.text for token in ahead if token.kind in ("word", "operator")] == list(texts)

    def skip(self, *texts: str) -> bool:
        """Skips these tokens if they are next; returns whether they were."""
        if not self.at(*texts):
            return False
        self._place += len(texts)
        return True

    def expect(self, *texts: str) -> None:
        if not self.skip(*texts):
            raise self.failure(f"{' '.join(texts)} expected")

    def failure(self, what: str) -> AssertionError:
        return AssertionError(f"the PostgreSQL twin cannot read at {self.token}: {what}, in {self._sql}")

    def name(self) -> str:
        token = self.next()
        if token.kind not in ("word", "name"):
            raise self.failure(f"a name expected instead of {token}")
        return token.text

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Parses items separated by commas."""
        items = [item()]
        while self.skip(","):
            items.append(item())
        return items

    def bracketed(self, item: Callable[[], T]) -> list[T]:
        """Parses `(item, item)`, possibly without items."""
        self.expect("(")
        if self.skip(")"):
            return []
        items = self.listed(item)
        self.expect(")")
        return items

    def query(self) -> Query:
        """Parses a query; statement_parser has it."""
        raise NotImplementedError

    def type_name(self) -> str:
        name = self.name()
        if name == "double":
            self.expect("precision")
            name = "double precision"
        name = _TYPES.get(name, name)
        if self.skip("[", "]"):
            name += "[]"
        return name

    def expression(self) -> Expression:
        left = self._and()
        while self.skip("or"):
            left = Operation("or", (left, self._and()))
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self.skip("and"):
            left = Operation("and", (left, self._not()))
        return left

    def _not(self) -> Expression:
        if self.at("not") and not self.at("not", "exists"):
            self.next()
            return Operation("not", (self._not(),))
        return self._is()

    def _is(self) -> Expression:
        left = self._comparison()
        while self.skip("is"):
            negated = self.skip("not")
            if self.skip("distinct", "from"):
                found: Expression = Operation("distinct", (left, self._comparison()))
            else:
                self.expect("null")
                found = Operation("isnull", (left,))
            left = Operation("not", (found,)) if negated else found
        return left

    def _comparison(self) -> Expression:
        left = self._among()
        while self.token.kind == "operator" and self.token.text in _COMPARISONS:
            operator = self.next().text.replace("!=", "<>")
            if self.at("any") or self.at("all"):
                left = self._quantified(operator, left)
            else:
                left = Operation(operator, (left, self._among()))
        return left

    def _quantified(self, operator: str, left: Expression) -> Expression:
        is_all = self.next().text == "all"
        self.expect("(")
        array = self.expression()
        self.expect(")")
        return Quantified(operator, left, array, is_all)

    def _among(self) -> Expression:
        left = self._other()
        while True:
            negated = self.at("not") and self._tokens[self._place + 1].text in ("in", "between", "like")
            if negated:
                self.next()
            if self.skip("in"):
                found = self._in(left)
            elif self.skip("between"):
                low = self._other()
                self.expect("and")
                bounds = (Operation(">=", (left, low)), Operation("<=", (left, self._other())))
                found = Operation("and", bounds)
            elif self.skip("like"):
                found = Operation("like", (left, self._other()))
            else:
                return left
            left = Operation("not", (found,)) if negated else found

    def _in(self, left: Expression) -> Expression:
        self.expect("(")
        if self.at("select") or self.at("with"):
            found: Expression = Subquery("in", self.query(), left)
        else:
            found = InList(left, self.listed(self.expression))
        self.expect(")")
        return found

    def _other(self) -> Expression:
        left = self._sum()
        while self.token.kind == "operator" and self.token.text in _OTHERS:
            left = Operation(self.next().text, (left, self._sum()))
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while self.token.kind == "operator" and self.token.text in ("+", "-"):
            left = Operation(self.next().text, (left, self._product()))
        return left

    def _product(self) -> Expression:
        left = self._unary()
        while self.token.kind == "operator" and self.token.text in ("*", "/", "%"):
            left = Operation(self.next().text, (left, self._unary()))
        return left

    def _unary(self) -> Expression:
        if self.skip("-"):
            operand = self._unary()
            return Const(-operand.value) if isinstance(operand, Const) else Operation("negate", (operand,))
        return self._postfix()

    def _postfix(self) -> Expression:
        found = self._primary()
        while True:
            if self.skip("::"):
                found = Cast(found, self.type_name())
            elif self.skip("["):
                first = self.expression()
                last = self.expression() if self.skip(":") else None
                self.expect("]")
                found = Subscript(found, first, last)
            else:
                return found

    def _primary(self) -> Expression:
        token = self.token
        if token.kind in ("string", "number"):
            return Const(self.next().value)
        if token.kind == "parameter":
            return Param(self.next().value)
        if self.at("("):
            return self._parenthesis()
        if self.skip("*"):
            return Star()
        return self._word()

    def _parenthesis(self) -> Expression:
        self.expect("(")
        if self.at("select") or self.at("with"):
            found: Expression = Subquery("scalar", self.query())
        else:
            items = self.listed(self.expression)
            found = items[0] if len(items) == 1 else RowValue(items)
        self.expect(")")
        return found

    def _word(self) -> Expression:
        name = self.name()
        specials: dict[str, Callable[[], Expression]] = {
            "case": self._case,
            "cast": self._cast,
            "exists": lambda: self._subquery("exists"),
            "array": self._array,
            "extract": self._extract,
            "interval": lambda: Cast(Const(self.next().value), "interval"),
        }
        special = specials.get(name)
        if name == "not":  # NOT EXISTS
            return Operation("not", (self._word(),))
        if special is not None and not self.at("."):
            return special()
        if name in _CONSTANTS:
            return Const(_CONSTANTS[name])
        if name == "current_user":
            return Call(name, ())
        if self.at("("):
            return self._call(name)
        if self.skip("."):
            return Star(name) if self.skip("*") else ColumnName(self.name(), name)
        return ColumnName(name)

    def _case(self) -> Expression:
        whens = []
        while self.skip("when"):
            condition = self.expression()
            self.expect("then")
            whens.append((condition, self.expression()))
        otherwise = self.expression() if self.skip("else") else None
        self.expect("end")
        return Case(whens, otherwise)

    def _cast(self) -> Expression:
        self.expect("(")
        value = self.expression()
        self.expect("as")
        found = Cast(value, self.type_name())
        self.expect(")")
        return found

    def _array(self) -> Expression:
        if self.at("("):
            return self._subquery("array")
        self.expect("[")
        items = self.listed(self.expression)
        self.expect("]")
        return ArrayItems(items)

    def _subquery(self, kind: str) -> Expression:
        self.expect("(")
        query = self.query()
        self.expect(")")
        return Subquery(kind, query)

    def _extract(self) -> Expression:
        self.expect("(")
        field = self.name()
        self.expect("from")
        value = self.expression()
        self.expect(")")
        return Call(f"extract_{field}", (value,))

    def _call(self, name: str) -> Expression:
        self.expect("(")
        call = Call(name, ())
        if self.skip("*"):
            call.is_star = True
        elif not self.at(")"):
            call.arguments = self.listed(self._argument)
            call.order = self.sort_keys()
        self.expect(")")
        if self.skip("filter"):
            self.expect("(", "where")
            call.where = self.expression()
            self.expect(")")
        if self.skip("over"):
            self.expect("(")
            call.partition = self.listed(self.expression) if self.skip("partition", "by") else []
            call.order = self.sort_keys()
            self.expect(")")
        return call

    def _argument(self) -> Expression:
        if self._tokens[self._place + 1].text == "=>":
            self._place += 2  # the name: functions here have one named argument
        return self.expression()

    def sort_keys(self) -> list[SortKey]:
        """Parses `ORDER BY …`, if it is next."""
        if not self.skip("order", "by"):
            return []
        return self.listed(self._sort_key)

    def _sort_key(self) -> SortKey:
        value = self.expression()
        descends = self.skip("desc")
        self.skip("asc")
        return SortKey(value, descends)
