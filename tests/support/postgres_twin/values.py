"""SQL values in memory: how each type is stored and cast, and the errors for values that do not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import asyncpg

Cast = Callable[[Any], Any]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RANGES = {"bigint": 1 << 63, "integer": 1 << 31, "smallint": 1 << 15}
_UNQUOTED = re.compile(r'[^\s",{}\\]+')


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


class Json:
    """A jsonb value: its text as it was given, and its content. `text` is not in PostgreSQL's order of keys."""

    __slots__ = ("_text", "content")

    def __init__(self, content: Any, text: str | None = None) -> None:
        self.content = content
        self._text = text

    @property
    def text(self) -> str:
        """Encoded when it is read: most members of a document are only compared."""
        text = self._text
        if text is None:
            text = self._text = json.dumps(self.content, ensure_ascii=False)
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Json({self.text})"

    def copy(self) -> Any:
        """Returns the content as a new object, as the driver's codec builds it for each row."""
        return _DECODER.decode(self.text)


def json_of(text: str) -> Json:
    """Parses text. Raises InvalidTextRepresentationError, and UntranslatableCharacterError for a NUL."""
    if "\\u0000" in text:
        raise asyncpg.UntranslatableCharacterError("unsupported Unicode escape sequence")
    try:
        return Json(_DECODER.decode(text), text)
    except ValueError as error:
        raise asyncpg.InvalidTextRepresentationError(f"invalid input syntax for type json: {error}") from error


class WireArray:
    """An array in PostgreSQL's binary format, as COPY sent it: decoded only where its elements are read."""

    __slots__ = ("wire",)

    def __init__(self, wire: bytes) -> None:
        self.wire = wire

    def __repr__(self) -> str:
        return f"WireArray({self.wire!r})"


def interval_of(text: str) -> timedelta:
    """Parses `7 days` or `1 minute`."""
    number, unit = text.split()
    return timedelta(**{unit.rstrip("s") + "s": float(number)})


def array_of(text: str, item: Cast) -> list[Any]:
    """Parses an array literal such as `{1,2}` or `{"a b",NULL}`."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise asyncpg.InvalidTextRepresentationError(f'malformed array literal: "{text}"')
    items: list[Any] = []
    place, end = 1, len(inner) - 1
    while place < end:
        if inner[place] == '"':
            part, place = _quoted(inner, place + 1)
            items.append(item(part))
        elif match := _UNQUOTED.match(inner, place):
            place = match.end()
            items.append(None if match.group().upper() == "NULL" else item(match.group()))
        else:
            place += 1
    return items


def _quoted(text: str, place: int) -> tuple[str, int]:
    part = []
    while text[place] != '"':
        place += text[place] == "\\"
        part.append(text[place])
        place += 1
    return "".join(part), place + 1


def _text(value: Any) -> str:
    if type(value) is str:
        if "\0" in value:
            raise asyncpg.CharacterNotInRepertoireError('invalid byte sequence for encoding "UTF8": 0x00')
        value.encode() if not value.isascii() else None  # raises UnicodeEncodeError for half a character
        return value
    return text_of(value)


def text_of(value: Any) -> str:
    """Returns a value as `CAST(value AS text)` has it."""
    if isinstance(value, str):
        return str(value)  # an enum's value
    if isinstance(value, Json):
        return json.dumps(value.content, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "{" + ",".join("NULL" if item is None else text_of(item) for item in value) + "}"
    return str(value)


def _whole(kind: str) -> Cast:
    limit = _RANGES[kind]

    def whole(value: Any) -> int:
        if type(value) is not int:
            value = _number(value, kind)
        if not -limit <= value < limit:
            raise asyncpg.NumericValueOutOfRangeError(f"{kind} out of range")
        return int(value)

    return whole


def _number(value: Any, kind: str) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError as error:
            raise asyncpg.InvalidTextRepresentationError(f'invalid input syntax for type {kind}: "{value}"') from error
    if isinstance(value, bool | int | float | Decimal):
        return int(value) if isinstance(value, int) else round(value)
    raise asyncpg.DataError(f"invalid input for query argument: {value!r} ({kind} expected)")


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise asyncpg.DataError(f"invalid input for query argument: {value!r} (a number expected)") from error


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("true", "t", "on", "yes", "1")
    return bool(value)


def _time(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.removesuffix("Z"))
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, datetime):
        raise asyncpg.DataError(f"invalid input for query argument: {value!r} (a time expected)")
    return value if value.tzinfo is UTC else value.astimezone(UTC)


def _uuid(value: Any) -> str:
    text = value if type(value) is str else str(value)
    if _UUID.fullmatch(text):
        return text
    try:
        return str(UUID(text))
    except ValueError as error:
        raise asyncpg.DataError(f"invalid input for query argument: {text!r} (invalid UUID)") from error


def _json(value: Any) -> Json:
    return value if isinstance(value, Json) else json_of(value)


_CASTS: dict[str, Cast] = {
    "text": _text,
    "boolean": _boolean,
    "double precision": _float,
    "timestamptz": _time,
    "uuid": _uuid,
    "jsonb": _json,
    "numeric": lambda value: value if isinstance(value, Decimal) else Decimal(str(value)),
    "bytea": bytes,
    "interval": lambda value: value if isinstance(value, timedelta) else interval_of(value),
    **{kind: _whole(kind) for kind in _RANGES},
}


def cast_to(kind: str) -> Cast:
    """Returns the function that stores or casts a value that is not NULL as a type."""
    if kind.endswith("[]"):
        item = cast_to(kind[:-2])
        return lambda value: _array(value, item)
    return _CASTS[kind]


def _array(value: Any, item: Cast) -> Any:
    if isinstance(value, str):
        return array_of(value, item)
    if isinstance(value, WireArray):
        return value
    return [
        None if part is None else _array(part, item) if isinstance(part, list | tuple) else item(part) for part in value
    ]
