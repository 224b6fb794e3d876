"""Requests and answers of the API as the commands use them: parameters, the JSON of an answer, or its error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slackwater.cli.credentials import TOKEN_VARIABLE, token_origin
from slackwater.model.errors import InvalidInput, Misconfigured, NotFound, SlackwaterError, Unavailable
from slackwater.runtime.version import version

if TYPE_CHECKING:
    import httpx2

Params = Mapping[str, str | int | None]


class Answer(dict[str, Any]):
    """An object of an answer. Raises Misconfigured for a field that is missing, because then the versions of command
    and server do not match.
    """

    def __missing__(self, name: str) -> Any:
        raise Misconfigured(
            f"the server's answer has no field {name!r}, which this command ({version()}) needs: upgrade the server, "
            "or use the slackwater command of the server's version (GET /version shows it)"
        )


def answer_of(response: httpx2.Response) -> Any:
    """The JSON of a successful answer. Raises the error that a problem document describes."""
    if not response.is_error:
        return json.loads(response.content, object_hook=Answer)
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    message = problem.get("detail") or problem.get("title") or f"HTTP {response.status_code} from {response.url}"
    code = problem.get("code")
    if response.status_code == 404:
        raise NotFound(str(message), code=code)
    if response.status_code in (400, 422):
        raise InvalidInput(str(message), code=code)
    if response.status_code in (401, 403):
        advice = ""
        if response.status_code == 401:
            advice = _token_advice(sent="authorization" in response.request.headers)
        raise Misconfigured(f"{message}{advice}", code=code)
    if response.status_code in (502, 503, 504):
        raise Unavailable(str(message), code=code)
    raise SlackwaterError(str(message), code=code)


def _token_advice(*, sent: bool) -> str:
    if not sent:
        return f"; give --token-file, or set {TOKEN_VARIABLE}"
    origin = token_origin()
    if origin is None:
        return "; it is the one in this state directory: see `slackwater doctor`"
    return f"; it was given by {origin}"


def given(params: Params | None) -> dict[str, str | int]:
    """The parameters that have a value."""
    return {name: value for name, value in (params or {}).items() if value is not None}
