"""Selection and order of the rows of `get` and `top`: label selectors, `--where` and `--sort-by`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from slackwater.cli.jsonpath import parse_path
from slackwater.cli.output import UNKNOWN, Item, TableColumn
from slackwater.model.errors import InvalidInput
from slackwater.resources.selectors import Selector

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
      | (?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>(?:{_VALUE})?)
      | (?P<set>{_KEY})\s+(?P<in>in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<present>{_KEY})
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)\s*(%|Ki|Mi|Gi|Ti|Pi|[a-z]+)?(?: .*)?")
_FACTORS = {
    "%": 0.01,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "s": 1.0,
    "h": 3600.0,
    "d": 86400.0,
}
_MINUTE, _MILLI = 60.0, 0.001
Key = Callable[[Item], Any]


def parse_selector(text: str) -> Selector:
    """A label selector as kubectl takes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises InvalidInput."""
    expressions, place = [], 0
    while place < len(text):
        match = _REQUIREMENT.match(text, place)
        if match is None:
            raise InvalidInput(
                f"--selector: {text[place:].strip()!r} is not a requirement; allowed: name=value, name!=value, name, "
                "!name, name in (a,b), name notin (a,b), separated by commas",
                field="selector",
            )
        expressions.append(_expression(match))
        place = match.end()
    return Selector(expressions=tuple(expressions))


def _expression(match: re.Match[str]) -> tuple[str, str, tuple[str, ...]]:
    parts = match.groupdict()
    if parts["absent"]:
        return parts["absent"], "DoesNotExist", ()
    if parts["sign"]:
        return parts["key"], "NotIn" if parts["sign"] == "!=" else "In", (parts["value"],)
    if parts["in"]:
        values = tuple(value.strip() for value in parts["values"].split(","))
        return parts["set"], "In" if parts["in"] == "in" else "NotIn", values
    return parts["present"], "Exists", ()


def parse_cells(where: Sequence[str], columns: Sequence[TableColumn]) -> dict[str, str]:
    """The cells that rows must have, by lower title, from `COLUMN=VALUE`. Raises InvalidInput with the columns."""
    titles = _titles(columns)
    cells = {}
    for condition in where:
        name, equals, value = condition.partition("=")
        if name.lower() not in titles or not equals or not value:
            close = [] if name.lower() in titles else get_close_matches(name.lower(), titles, n=1)
            hint = f"did you mean {close[0]}=…?" if close else f"allowed: {', '.join(f'{title}=…' for title in titles)}"
            raise InvalidInput(f"--where: {condition!r} is not a filter; {hint}", field="--where")
        cells[name.lower()] = value
    return cells


def with_cells(items: Sequence[Item], cells: Mapping[str, str], columns: Sequence[TableColumn]) -> list[Item]:
    """The items whose cells have these texts, in upper or lower case."""
    wanted = [(column, cells[column.title.lower()].lower()) for column in columns if column.title.lower() in cells]
    return [item for item in items if all(column.text(item).lower() == text for column, text in wanted)]


def columns_among(labels: Selector, columns: Sequence[TableColumn]) -> list[str]:
    """The requirements `label=value` of a selector whose label has the name of a column, as `--where` takes them."""
    titles = _titles(columns)
    return [
        f"{key.lower()}={values[0]}"
        for key, operator, values in labels.expressions
        if operator == "In" and values[0] and key.lower() in titles
    ]


def _titles(columns: Sequence[TableColumn]) -> list[str]:
    return [column.title.lower() for column in columns]


def sort_items(items: Sequence[Item], columns: Sequence[TableColumn], order: str | None) -> list[Item]:
    """The items by the column or path that `order` names; a `-` before it reverses. Items without a value come last.

    Raises InvalidInput that lists the columns.
    """
    if not order:
        return list(items)
    reverse, name = order.startswith("-"), order.removeprefix("-")
    key = _sort_key(name, columns)
    keys = [(key(item), item) for item in items]
    known = sorted((pair for pair in keys if pair[0] is not None), key=lambda pair: pair[0], reverse=reverse)
    return [item for _, item in known] + [item for value, item in keys if value is None]


def _sort_key(name: str, columns: Sequence[TableColumn]) -> Key:
    if name.startswith((".", "{", "[")):
        path = parse_path(name)
        return lambda item: _comparable(next(iter(path.values(item)), None))
    for column in columns:
        if column.title.lower() == name.lower():
            return lambda item: _cell_value(column.text(item), column)
    titles = ", ".join(_titles(columns))
    raise InvalidInput(
        f"--sort-by: {name!r} is not a column; allowed: {titles}, or a path like .metadata.name", field="sort-by"
    )


def _comparable(value: Any) -> tuple[int, Any] | None:
    """Numbers before texts; None for what has no order."""
    if value is None:
        return None
    if isinstance(value, int | float):
        return 0, value
    return 1, str(value)


def _cell_value(cell: str, column: TableColumn) -> tuple[int, Any] | None:
    """A cell as a number if it begins with an amount, else its text. `m` is minutes in columns of ages, else milli."""
    if cell in ("", UNKNOWN):
        return None
    match = _AMOUNT.fullmatch(cell) if column.right else None
    if match is None:
        return 1, cell
    unit = match[2] or ""
    if unit == "m":
        return 0, float(match[1]) * (_MINUTE if column.title in AGES else _MILLI)
    return 0, float(match[1]) * _FACTORS.get(unit, 1.0)


AGES = frozenset({"AGE", "REPORTED", "SINCE", "GIVEN-UP", "REPLAYED", "LASTED"})
"""Titles of columns with durations."""
