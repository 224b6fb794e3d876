"""ETags built from generations, and the two preconditions on them (RFC 9110, 13.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Header

from slackwater.model.errors import Conflict, NotFound

IfMatch = Annotated[
    str | None, Header(description='Only if the ETag is still this one, e.g. `"3"`; `*` for any. Else 412.')
]
IfNoneMatch = Annotated[
    str | None, Header(description='Only if the ETag is not (or no longer) this one, e.g. `"3"`. Else 304.')
]
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The ETag is the one of If-None-Match."}}


class PreconditionFailed(Conflict):
    """If-Match names an ETag other than the current one: HTTP 412."""

    code = "precondition_failed"


def etag(generation: int) -> str:
    """Returns the strong ETag of a generation."""
    return f'"{generation}"'


def unchanged(if_none_match: str | None, present: str) -> bool:
    """Returns whether the caller has the current version (weak comparison)."""
    return if_none_match is not None and _names(if_none_match, present, weak=True)


def refuse_other(if_match: str | None, present: str) -> None:
    """Raises PreconditionFailed if the caller read another version (strong comparison)."""
    if if_match is not None and not _names(if_match, present, weak=False):
        raise PreconditionFailed(f"If-Match: {if_match} was read, {present} is stored; read it again", field="If-Match")


async def matched(generation: Callable[[], Awaitable[int]], if_match: str) -> int:
    """Returns the current generation if it is the one that was read. Raises PreconditionFailed."""
    try:
        present = await generation()
    except NotFound:
        raise PreconditionFailed(f"If-Match: {if_match} was read, nothing is stored", field="If-Match") from None
    refuse_other(if_match, etag(present))
    return present


def _names(header: str, present: str, *, weak: bool) -> bool:
    given = [part.strip() for part in header.split(",")]
    return "*" in given or any((part.removeprefix("W/") if weak else part) == present for part in given)
