"""Explains invalid values of a request: the field, what is allowed, and the value received.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from slackwater.model.close_names import closest
from slackwater.model.field_paths import as_written
from slackwater.model.known_fields import fields_at, unknown_field

LONGEST_VALUE = 80
_OWN_WORDS = "Value error, "
"""pydantic's prefix to messages of Slackwater's validators, which name the value themselves."""
_QUOTED = re.compile(r"'([^']*)'")
_NO_FIELDS = ("model_type", "model_attributes_type", "dict_type")


class Wrong(NamedTuple):
    """One pydantic error. `of_several`: the value may have several shapes, and this error is one
    shape's.
    """

    field: str
    of_several: bool
    error: Mapping[str, Any]
    steps: Sequence[str | int] = ()

    @property
    def is_another_kind(self) -> bool:
        """Returns whether the value is of another JSON type, so that this shape was not
        intended.
        """
        return str(self.error["type"]).endswith("_type")


def explain_value(
    errors: Sequence[Mapping[str, Any]], content_type: str | None, body: Any = None, model: Any = None
) -> list[tuple[str, str]]:
    """Returns (field, message) of every pydantic error, with the field names of `body`;
    `content_type` is the request's, `model` the type of its body.

    For a value that may have several shapes pydantic reports the errors of each; when the value
    clearly has one of them, the errors of the others are dropped.
    """
    wrong_values = [_wrong(error, body) for error in errors]
    return [
        (one.field, _message(one, content_type, model))
        for one in wrong_values
        if not _is_beside_the_point(one, wrong_values)
    ]


def _wrong(error: Mapping[str, Any], body: Any) -> Wrong:
    first, *steps = error["loc"]
    if first != "body" or error["type"] == "json_invalid":  # what follows then is the character
        return Wrong("body" if first == "body" else ".".join(map(str, error["loc"])), False, error)
    written = as_written(steps, body, is_missing=error["type"] == "missing")
    return Wrong(".".join(map(str, ("body", *written))), len(written) < len(steps), error, written)


def _is_beside_the_point(value: Wrong, others: Sequence[Wrong]) -> bool:
    if not value.of_several or not value.is_another_kind:
        return False
    return any(
        f"{other.field}.".startswith(f"{value.field}.") and not other.is_another_kind
        for other in others
        if other is not value
    )


def _message(value: Wrong, content_type: str | None, model: Any) -> str:
    error = value.error
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            *parents, name = value.steps or ("",)
            return unknown_field(str(name), fields_at(model, parents))
        case "json_invalid":
            return f"is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        case "value_error":
            return _once(error)
        case _ if error["loc"] == ("body",) and isinstance(error["input"], bytes):
            return f"is read as JSON only with content-type: application/json; got {content_type or 'none'}"
        case kind if kind in _NO_FIELDS:
            return f"must be an object with fields{_got(error['input'], '')}"
        case "enum" | "literal_error":
            return f"{_once(error)}{_got(error['input'], error['msg'])}{_closest(error)}"
    return f"{_once(error)}{_got(error['input'], error['msg'])}"


def _closest(error: Mapping[str, Any]) -> str:
    """Returns the allowed value that resembles the received text, as a question."""
    text = error["input"]
    close = closest(text, _QUOTED.findall(error["ctx"]["expected"])) if isinstance(text, str) else ""
    return f"; did you mean {close!r}?" if close else ""


def _once(error: Mapping[str, Any]) -> str:
    """Returns the message without the leading field name."""
    words: str = error["msg"]
    return words.removeprefix(_OWN_WORDS).removeprefix(f"{error['loc'][-1]}: ")


def _got(value: Any, message: str) -> str:
    """Returns a scalar value that the message does not contain; collections are too long to
    help.
    """
    if not isinstance(value, str | int | float | bool | None) or (text := repr(value)) in message:
        return ""
    return f"; got {text}" if len(text) <= LONGEST_VALUE else f"; got {text[:LONGEST_VALUE]}…"
