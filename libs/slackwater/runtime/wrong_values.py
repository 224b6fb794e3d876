"""What is wrong with a value of a request, in our words: the field, what is allowed, and what came. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST_VALUE = 80
_OWN_WORDS = "Value error, "
"""What pydantic puts before a message of ours, which names the value itself."""


def told(error: Mapping[str, Any], content_type: str | None) -> tuple[str, str]:
    """(field, message) of one error of pydantic; `content_type` is what the request says of its body."""
    field = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "missing":
            return field, "is missing"
        case "extra_forbidden":
            return field, "there is no such field here"
        case "json_invalid":
            return "body", f"is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        case "value_error":
            return field, _once(error)
        case _ if error["loc"] == ("body",) and isinstance(error["input"], bytes):
            return field, f"is read as JSON only with content-type: application/json; got {content_type or 'none'}"
    return field, f"{_once(error)}{_got(error['input'], error['msg'])}"


def _once(error: Mapping[str, Any]) -> str:
    """The message without what stands before it already: the field."""
    words: str = error["msg"]
    return words.removeprefix(_OWN_WORDS).removeprefix(f"{error['loc'][-1]}: ")


def _got(value: Any, said: str) -> str:
    """A single value that the message does not name; what holds others is too long to be of help."""
    text = repr(value)
    if text in said or not isinstance(value, str | int | float | bool | None):
        return ""
    return f"; got {text}" if len(text) <= LONGEST_VALUE else f"; got {text[:LONGEST_VALUE]}…"
