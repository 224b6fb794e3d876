"""Splits SQL into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<string>'(?:[^']|'')*')
  | (?P<dollar>\$\$[\s\S]*?\$\$)
  | (?P<quoted>"[^"]+")
  | (?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+)
  | (?P<position>\$\d+)
  | (?P<operator>::|=>|<>|!=|<=|>=|->>|->|\#>>|\#>|\|\||!~|[-+*/%<>=~(),.;\[\]^])
  | (?P<parameter>(?<![:\w]):[A-Za-z_]\w*)
  | (?P<colon>:)
  | (?P<word>[A-Za-z_]\w*)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SqlToken:
    kind: str
    text: str
    """Lower case for words and operators."""
    value: Any = None


def tokens_of(sql: str) -> list[SqlToken]:
    """Returns the tokens of a statement, the last one of kind `end`. Raises AssertionError for unknown characters."""
    tokens, place = list[SqlToken](), 0
    while place < len(sql):
        match = _TOKEN.match(sql, place)
        assert match is not None, f"the PostgreSQL twin cannot read: {sql[place : place + 40]!r}"
        place = match.end()
        if match.lastgroup != "space":
            tokens.append(_token(str(match.lastgroup), match.group()))
    return [*tokens, SqlToken("end", "")]


def _token(kind: str, text: str) -> SqlToken:
    if kind == "string":
        return SqlToken("string", "", text[1:-1].replace("''", "'"))
    if kind == "dollar":
        return SqlToken("string", "", text[2:-2])
    if kind == "quoted":
        return SqlToken("name", text[1:-1])
    if kind == "number":
        return SqlToken("number", "", float(text) if "." in text else int(text))
    if kind == "position":
        return SqlToken("parameter", "", int(text[1:]) - 1)
    if kind == "parameter":
        return SqlToken("parameter", "", text[1:])
    if kind == "colon":
        return SqlToken("operator", ":")
    return SqlToken(kind, text.lower())
