"""SQL functions and operators on values. Except in LENIENT, a NULL argument gives NULL."""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import Any

import asyncpg
from tests.support.postgres_twin.values import Json, WireArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _divided(left: Any, right: Any) -> Any:
    if right == 0:
        raise asyncpg.DivisionByZeroError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _remainder(left: int, right: int) -> int:
    return int(math.fmod(left, right)) if left < 0 or right < 0 else left % right


def _minus(left: Any, right: Any) -> Any:
    if isinstance(left, Json):
        return Json({key: value for key, value in left.content.items() if key != right})
    return left - right


def _joined(left: Any, right: Any) -> Any:
    if isinstance(left, Json):
        return Json(
            {**left.content, **right.content} if isinstance(left.content, dict) else left.content + right.content
        )
    return left + right


def _member(value: Json, key: Any) -> Any:
    content = value.content
    if isinstance(content, dict) and isinstance(key, str):
        return Json(content[key]) if key in content else None
    if isinstance(content, list) and isinstance(key, int):
        return Json(content[key]) if -len(content) <= key < len(content) else None
    return None


def _member_text(value: Json, key: Any) -> str | None:
    found = _member(value, key)
    return None if found is None else json_text(found)


def json_text(value: Json) -> str | None:
    """Returns a JSON value as `->>` has it: a string without quotes, null as NULL."""
    return None if value.content is None else value.content if isinstance(value.content, str) else value.text


def _at_path(value: Json, path: str | Sequence[str]) -> Any:
    found: Any = value
    for key in path.strip("{}").split(",") if isinstance(path, str) else path:
        found = None if found is None else _member(found, key)
    return found


def _text_at_path(value: Json, path: str | Sequence[str]) -> str | None:
    found = _at_path(value, path)
    return None if found is None else json_text(found)


@cache
def _pattern(like: str) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in like), re.DOTALL)


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": _minus,
    "*": lambda left, right: left * right,
    "/": _divided,
    "%": _remainder,
    "||": _joined,
    "->": _member,
    "->>": _member_text,
    "#>": _at_path,
    "#>>": _text_at_path,
    "~": lambda value, pattern: re.search(pattern, value) is not None,
    "like": lambda value, pattern: _pattern(pattern).fullmatch(value) is not None,
}

_JSON_TYPES = {
    dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null", int: "number", float: "number",
}  # fmt: skip


def _split_part(value: str, separator: str, place: int) -> str:
    parts = value.split(separator)
    return parts[place - 1] if 0 < place <= len(parts) else ""


def _cardinality(value: Any) -> int:
    return sum(map(_cardinality, value)) if isinstance(value, list | tuple) else 1


def array_sent(value: Any) -> bytes:
    """Returns a `bigint[]` in the binary format of the protocol."""
    if isinstance(value, WireArray):
        return value.wire
    sizes = _sizes(value)
    flat = list(chain.from_iterable(value)) if len(sizes) == 2 else value
    head = struct.pack(">iii", len(sizes), 0, 20) + b"".join(struct.pack(">ii", size, 1) for size in sizes)
    return head + b"".join(struct.pack(">iq", 8, item) for item in flat)


def _sizes(value: Sequence[Any]) -> list[int]:
    if not value:
        return []
    return [len(value), len(value[0])] if isinstance(value[0], list | tuple) else [len(value)]


def _is_within(used: Json, ceiling: Json) -> bool:
    """As quota's migration defines it."""
    most = ceiling.content
    return not any(
        int(value) < 0 or (name in most and int(value) > int(most[name])) for name, value in used.content.items()
    )


STRICT: Mapping[str, Callable[..., Any]] = {
    "split_part": _split_part,
    "convert_to": lambda value, _: value.encode(),
    "crc32": zlib.crc32,
    "make_interval": lambda seconds: timedelta(seconds=seconds),
    "extract_epoch": lambda value: Decimal(str(
        value.total_seconds() if isinstance(value, timedelta) else (value - _EPOCH).total_seconds()
    )),
    "cardinality": _cardinality,
    "jsonb_typeof": lambda value: _JSON_TYPES[type(value.content)],
    "array_send": array_sent,
    "length": len,
    "pg_get_expr": lambda bounds, _: bounds,
    "lower": str.lower,
    "is_within": _is_within,
}  # fmt: skip


def _built_object(*pairs: Any) -> Json:
    return Json({key: _plain(value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)})


def _plain(value: Any) -> Any:
    return value.content if isinstance(value, Json) else value


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) or (left is not None and right is not None and left != left and right != right)


def _greatest(*values: Any) -> Any:
    return max([value for value in values if value is not None], default=None) if None in values else max(values)


def _least(*values: Any) -> Any:
    return min([value for value in values if value is not None], default=None) if None in values else min(values)


LENIENT: Mapping[str, Callable[..., Any]] = {
    "coalesce": _first,
    "greatest": _greatest,
    "least": _least,
    "nullif": lambda left, right: None if _same(left, right) else left,
    "jsonb_build_object": _built_object,
}


def _summed(values: list[Any]) -> Any:
    if not values:
        return None
    total = sum(values)
    return Decimal(total) if isinstance(total, int) else total


AGGREGATES: Mapping[str, Callable[[list[Any]], Any]] = {
    "sum": _summed,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "bool_and": lambda values: all(values) if values else None,
    "bool_or": lambda values: any(values) if values else None,
    "avg": lambda values: sum(values) / len(values) if values else None,
}
"""Aggregates of the values that are not NULL. `count` and `array_agg` are in aggregates.py."""


def _subscripts(array: Any, _: int) -> list[int]:
    return list(range(1, len(_elements(array)) + 1))


def _elements(array: Any) -> Sequence[Any]:
    return elements_of(array) if isinstance(array, WireArray) else array


def elements_of(array: WireArray) -> list[Any]:
    """Decodes the numbers of a binary array, of one or two dimensions."""
    wire = array.wire
    dimensions, _, kind = struct.unpack_from(">iii", wire)
    sizes = [struct.unpack_from(">i", wire, 12 + 8 * number)[0] for number in range(dimensions)]
    code = {20: "q", 701: "d", 25: "s"}[kind]
    flat, place = [], 12 + 8 * dimensions
    for _ in range(math.prod(sizes) if sizes else 0):
        (size,) = struct.unpack_from(">i", wire, place)
        place += 4
        piece = wire[place : place + size]
        flat.append(piece.decode() if code == "s" else struct.unpack(f">{code}", piece)[0])
        place += size
    if dimensions < 2:
        return flat
    return [flat[start : start + sizes[1]] for start in range(0, len(flat), sizes[1])]


def _flat(array: Any) -> list[Any]:
    elements = _elements(array)
    if elements and isinstance(elements[0], list | tuple):
        return list(chain.from_iterable(elements))
    return list(elements)


def _texts_of(value: Json) -> list[str | None]:
    if not isinstance(value.content, list):
        raise asyncpg.InvalidParameterValueError("cannot extract elements from an object")
    return [json_text(Json(item)) for item in value.content]


SETS: Mapping[str, Callable[..., Sequence[Any]]] = {
    "unnest": _flat,
    "generate_series": lambda first, last: range(first, last + 1),
    "generate_subscripts": _subscripts,
    "jsonb_array_elements_text": _texts_of,
}
"""Functions that return several rows of one column. Several arrays for `unnest`, and jsonb_to_record: sources.py."""
