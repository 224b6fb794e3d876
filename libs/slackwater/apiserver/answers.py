"""What the answers of an API server mean: errors by status, and the lines of a watch. For every client of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from slackwater.apiserver.port import (
    BudgetRefused,
    CredentialsRefused,
    EvictionRefused,
    FieldsOwned,
    Page,
    RightMissing,
    VersionExpired,
    WatchChange,
    WatchEvent,
)
from slackwater.apiserver.records import ApiRecord, WatchedKind
from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound, SlackwaterError, Unavailable

T = TypeVar("T", bound=ApiRecord)

WATCH_SECONDS: Final = 290
"""After this time the server ends a watch, which is then resumed."""
SILENT_SECONDS: Final = 150.0
"""A watch without a byte for so long is broken: the server sends a bookmark every minute."""
BUDGET: Final = "DisruptionBudget"
"""The cause in the refusal of an eviction by a budget. Others with status 429 are about the server's load."""
TWO_BUDGETS: Final = "more than one PodDisruptionBudget"
"""How the server refuses to evict a pod that two budgets select: with status 500, although no later try succeeds."""
RETRY_SECONDS: Final = 10.0
"""Where a refusal proposes no time."""
_CHANGES: Final = {
    "ADDED": WatchChange.UPSERTED,
    "MODIFIED": WatchChange.UPSERTED,
    "DELETED": WatchChange.DELETED,
    "BOOKMARK": WatchChange.BOOKMARK,
}
_MANAGER: Final = re.compile(r'conflicts? with "([^"]+)"')
_RIGHT: Final = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
_FUTURE: Final = "Too large resource version"


@contextmanager
def bounded_depth() -> Iterator[None]:
    """Raises Unavailable for an object that is nested too deeply: fields of custom resources that may hold a number or
    a text accept any value, and the kind that has such a resource is not followed, instead of none.
    """
    try:
        yield
    except RecursionError:
        raise Unavailable("the API server has an object that is nested too deeply; delete it") from None


def decode_answer(body: str | bytes) -> Any:
    """Returns the JSON of an answer. Raises Unavailable beyond its depth, msgspec.DecodeError for what is no JSON."""
    try:
        with bounded_depth():
            return msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise msgspec.DecodeError("it is not UTF-8") from None


def watch_query(version: str) -> dict[str, str]:
    """The query of a watch from a version on."""
    return {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(WATCH_SECONDS),
    }


def read_page(kind: WatchedKind[T], answer: Mapping[str, Any]) -> Page[T]:
    """A part of a list. Raises Unavailable for what is none: a proxy answered, say."""
    if not isinstance(answer, Mapping):
        raise Unavailable("the API server's answer is no list")
    metadata = answer.get("metadata") or {}
    with bounded_depth():
        items = [kind.parse(item) for item in answer.get("items") or ()]
    return Page(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))


def answered(version: str) -> WatchEvent[Any]:
    """The first event of a watch, which no server sends: it has answered, and nothing has changed."""
    return WatchEvent(WatchChange.BOOKMARK, version, None)


def read_event(kind: WatchedKind[T], line: str | bytes) -> WatchEvent[T]:
    """One line of a watch. Raises what an ERROR line means, and Unavailable for what is no event."""
    event = decode_answer(line)
    if not isinstance(event, dict):
        raise Unavailable("the API server sent a line that is no event")
    item = event.get("object") or {}
    change = _CHANGES.get(str(event.get("type")))
    if change is None:
        raise refusal(int(item.get("code") or 500), b"", item)
    version = str((item.get("metadata") or {}).get("resourceVersion") or "")
    with bounded_depth():
        return WatchEvent(change, version, None if change is WatchChange.BOOKMARK else kind.parse(item))


def refusal(code: int, body: bytes, status: Mapping[str, Any] | None = None) -> SlackwaterError:
    """The error that a status of the API means."""
    answer = _status(body) if status is None else status
    message = str(answer.get("message") or f"status {code}")
    if code == HTTPStatus.GONE or _FUTURE in message:
        return VersionExpired(message)
    if code == HTTPStatus.FORBIDDEN and (right := _RIGHT.search(message)) is not None:
        verb, resource, group = right.groups()
        name, _, part = resource.partition("/")
        return RightMissing(
            f"the API server refuses: {message}",
            f"{verb} {name}{f'.{group}' if group else ''}{f'/{part}' if part else ''}",
        )
    if (eviction := _refused_eviction(message, answer.get("details") or {})) is not None:
        return eviction
    if code == HTTPStatus.UNAUTHORIZED:
        return CredentialsRefused(f"the API server refuses: {message}")
    if code == HTTPStatus.FORBIDDEN:
        return Misconfigured(f"the API server refuses: {message}")
    if code == HTTPStatus.NOT_FOUND:
        return NotFound(message)
    if code == HTTPStatus.CONFLICT:
        managers = frozenset(_MANAGER.findall(message))
        return FieldsOwned(message, managers) if managers else Conflict(message)
    if code == HTTPStatus.UNPROCESSABLE_ENTITY:
        return Conflict(message) if "metadata.uid" in message else InvalidInput(message)
    if code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(f"the API server is not able to answer: {message}")
    return Misconfigured(f"the API server refuses the request ({code}): {message}")


def _refused_eviction(message: str, details: Mapping[str, Any]) -> SlackwaterError | None:
    """The refusal of an eviction by its budgets, which has several statuses; None: it is about something else."""
    if any(cause.get("reason") == BUDGET for cause in details.get("causes") or ()):
        return BudgetRefused(message, float(details.get("retryAfterSeconds") or RETRY_SECONDS))
    return EvictionRefused(message) if TWO_BUDGETS in message else None


def is_final_refusal(error: SlackwaterError) -> bool:
    """Whether the same request is refused again however often it is sent, until something else changes. Credentials are
    rotated, and a server that has just started knows no rights yet: then another try may succeed."""
    is_final = isinstance(error, InvalidInput | Misconfigured)
    return is_final and not isinstance(error, CredentialsRefused | RightMissing)


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        answer = decode_answer(body)
    except (msgspec.DecodeError, Unavailable):
        return {"message": body[:200].decode(errors="replace")}
    return answer if isinstance(answer, dict) else {}
