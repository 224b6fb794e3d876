"""Pages of sorted lists: `limit` items after the last one of the previous page.

A continue token holds the sort key of that last item, not a count, so that items added or removed in between are
neither repeated nor cause others to be skipped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

from fastapi import Query

from slackwater.console.edge.api_models import Listing
from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text

T = TypeVar("T")
Key = tuple[str | int, ...]

MOST = 1000
USUAL = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Limit = Annotated[int, Query(ge=1, le=MOST, description="Items per page.")]
Continue = Annotated[
    str | None,
    Query(alias="continue", max_length=4000, description="`continue` of the previous page; the first page if omitted."),
]


def paged(items: Iterable[T], key: Callable[[T], Key], token: str | None, limit: int, name: str) -> Listing[T]:
    """One page of `items`, which are sorted by `key`. Raises InvalidInput for a token of another list."""
    behind = list(items)
    if token is not None:
        after = behind_key(token, name)
        if behind and [type(part) for part in after] != [type(part) for part in key(behind[0])]:
            raise foreign(token, name)
        behind = [item for item in behind if key(item) > after]
    more = len(behind) > limit
    return Listing(items=behind[:limit], continue_=token_of(name, key(behind[limit - 1])) if more else None)


def token_of(name: str, key: Key) -> str:
    """An opaque token for the items after `key` in the list `name`."""
    return base64.urlsafe_b64encode(json.dumps([name, *key]).encode()).decode().rstrip("=")


def behind_key(token: str, name: str) -> Key:
    """The key in a token. Raises InvalidInput for a token that `token_of` did not make for this list."""
    try:
        found = parse_json_text(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) < 2 or found[0] != name:
        raise foreign(token, name)
    key = tuple(found[1:])
    if any(type(part) not in (str, int) or "\0" in str(part) for part in key):
        raise foreign(token, name)
    return key


def micros(moment: datetime) -> int:
    """A time as microseconds, which sort."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(count: int, token: str, name: str) -> datetime:
    """The time of `micros`. Raises InvalidInput for a number that is not a time."""
    try:
        return _EPOCH + count * _MICROSECOND
    except OverflowError:
        raise foreign(token, name) from None


def time_and_id(token: str | None, name: str) -> tuple[datetime, str] | None:
    """The key of a list in the order of time and id; None without a token. Raises InvalidInput."""
    if token is None:
        return None
    match behind_key(token, name):
        case (int(at), str(identity)):
            return moment_of(at, token, name), identity
        case _:
            raise foreign(token, name)


def foreign(token: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"continue: {token[:60]!r} was not issued for this list ({name}); leave it out to begin with the first page",
        code="invalid_continue",
        field="continue",
    )
