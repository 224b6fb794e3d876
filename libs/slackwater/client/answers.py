"""Requests and answers of the API: parameters, the JSON of an answer with its headers, or the error that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound, SlackwaterError, Unavailable
from slackwater.model.json_text import parse_json_text

if TYPE_CHECKING:
    import httpx2

Params = Mapping[str, Any]
"""By name: text, numbers, booleans, times, or sequences of them; None: not given."""
_QUOTED = re.compile(r'"([^"]*)"')
READS = frozenset({"GET", "HEAD"})
MISSING_FIELD = (
    "the server's answer has no field {name!r}, which this command ({version}) needs: upgrade the server, "
    "or use the slackwater command of the server's version (GET /version shows it)"
)


class Answer(dict[str, Any]):
    """An object of an answer. Raises Misconfigured for a field that is missing, because then the versions of command
    and server do not match.
    """

    def __missing__(self, name: str) -> Any:
        from slackwater.runtime.version import version

        raise Misconfigured(MISSING_FIELD.format(name=name, version=version()))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its JSON (text, if it is not JSON), the ETag of the document, and the server's warnings."""

    body: Any
    etag: str = ""
    warning: str = ""


def reply_of(response: httpx2.Response) -> Reply:
    """A successful answer. Raises the error that a problem document describes."""
    body = answer_of(response)
    warnings = _QUOTED.findall(response.headers.get("warning", ""))
    return Reply(body, response.headers.get("etag", ""), "; ".join(warnings))


def answer_of(response: httpx2.Response) -> Any:
    """The JSON of a successful answer, or its text. Raises the error that a problem document describes."""
    if response.is_error:
        raise error_of(response)
    if response.headers.get("content-type", "application/json").startswith("text/"):
        return response.text
    try:
        return parse_json_text(response.content, Answer) if response.content else None
    except ValueError as error:
        raise Misconfigured(f"{response.url}: the answer is not that of a Slackwater server: {error}") from None


_BY_STATUS: Mapping[int, type[SlackwaterError]] = {
    **dict.fromkeys((400, 413, 422, 428), InvalidInput),
    **dict.fromkeys((401, 403), Misconfigured),
    404: NotFound,
    **dict.fromkeys((409, 412), Conflict),
    **dict.fromkeys((429, 502, 503, 504), Unavailable),
}


def error_of(response: httpx2.Response) -> SlackwaterError:
    """The error that an answer describes, with the `code` of its problem document and the `field` that it names."""
    try:
        problem = parse_json_text(response.content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    message = problem.get("detail") or problem.get("title") or f"HTTP {response.status_code} from {response.url}"
    kind = _BY_STATUS.get(response.status_code, SlackwaterError)
    return kind(str(message), code=problem.get("code"), field=problem.get("field"))


def given(params: Params | None) -> dict[str, Any]:
    """The parameters that have a value, as a query has them."""
    return {name: _text(value) for name, value in (params or {}).items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value
