"""What is wrong with a value of a request, in our words: the field, what is allowed, and what came. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from slackwater.model.written import as_written

LONGEST_VALUE = 80
_OWN_WORDS = "Value error, "
"""What pydantic puts before a message of ours, which names the value itself."""
_NO_FIELDS = ("model_type", "model_attributes_type", "dict_type")


class Wrong(NamedTuple):
    """One error of pydantic. `of_several`: the value may have several shapes, and this is what one of them says."""

    field: str
    of_several: bool
    error: Mapping[str, Any]

    @property
    def is_another_kind(self) -> bool:
        """No number, no text, no object …: it was not meant to have this shape."""
        return str(self.error["type"]).endswith("_type")


def told(errors: Sequence[Mapping[str, Any]], content_type: str | None, body: Any = None) -> list[tuple[str, str]]:
    """(field, message) of every error of pydantic, the field by the names that stand in `body`; `content_type` is what
    the request says of it.

    Of a value that may have several shapes pydantic tells what each would ask for; where it has one of them, but
    wrongly, what the others say is left out.
    """
    found = [_wrong(error, body) for error in errors]
    return [(one.field, _message(one.error, content_type)) for one in found if not _is_beside_the_point(one, found)]


def _wrong(error: Mapping[str, Any], body: Any) -> Wrong:
    first, *steps = error["loc"]
    if first != "body" or error["type"] == "json_invalid":  # what follows then is the character
        return Wrong("body" if first == "body" else ".".join(map(str, error["loc"])), False, error)
    written = as_written(steps, body, is_missing=error["type"] == "missing")
    return Wrong(".".join(map(str, ("body", *written))), len(written) < len(steps), error)


def _is_beside_the_point(one: Wrong, found: Sequence[Wrong]) -> bool:
    if not one.of_several or not one.is_another_kind:
        return False
    return any(
        f"{other.field}.".startswith(f"{one.field}.") and not other.is_another_kind
        for other in found
        if other is not one
    )


def _message(error: Mapping[str, Any], content_type: str | None) -> str:
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "there is no such field here"
        case "json_invalid":
            return f"is not JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        case "value_error":
            return _once(error)
        case _ if error["loc"] == ("body",) and isinstance(error["input"], bytes):
            return f"is read as JSON only with content-type: application/json; got {content_type or 'none'}"
        case kind if kind in _NO_FIELDS:
            return f"must be an object with fields{_got(error['input'], '')}"
    return f"{_once(error)}{_got(error['input'], error['msg'])}"


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
