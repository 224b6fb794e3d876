"""Parsers of the API's times and of the pages' cursors."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta

from slackwater.model.errors import InvalidInput
from slackwater.model.time import Clock
from slackwater.runtime.moments import ALLOWED as ALLOWED
from slackwater.runtime.moments import moment as moment

USUAL_SPAN = timedelta(minutes=15)


def number_of(text: str, field: str, most: int) -> int:
    """A whole number from 1 in the URL of a page. Raises InvalidInput, which the page reports."""
    if re.fullmatch(r"\d{1,18}", text, re.ASCII) and 1 <= int(text) <= most:
        return int(text)
    raise InvalidInput(f"{field}: {text!r} is not allowed; allowed: a whole number from 1 to {most}", field=field)


class Times:
    """Converts query parameters to times, with one clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def at(self, text: str | None, field: str = "at") -> datetime:
        now = self._clock.now()
        return moment(text, now, field) if text else now

    def maybe(self, text: str | None, field: str) -> datetime | None:
        return self.at(text, field) if text else None

    def span(self, since: str | None, until: str | None) -> tuple[datetime, datetime]:
        """The span; by default the last 15 minutes. Raises InvalidInput when it ends before it begins."""
        end = self.at(until, "until")
        start = self.at(since, "since") if since else end - USUAL_SPAN
        in_order(start, end)
        return start, end

    def between(self, since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
        """The span with open ends. Raises InvalidInput when it ends before it begins."""
        return open_span(since, until, self._clock.now())


def open_span(since: str | None, until: str | None, now: datetime) -> tuple[datetime | None, datetime | None]:
    """A span from two texts; without one its end is open. Raises InvalidInput, also when it ends before it begins."""
    start = moment(since, now, "since") if since else None
    end = moment(until, now, "until") if until else None
    if start is not None and end is not None:
        in_order(start, end)
    return start, end


def in_order(start: datetime, end: datetime) -> None:
    """Raises InvalidInput when it ends before it begins."""
    if start > end:
        raise InvalidInput(
            f"since ({start.isoformat()}) is after until ({end.isoformat()})", code="invalid_time", field="since"
        )


def encode_cursor(at: datetime, id_: str) -> str:
    """An opaque cursor after the last item of a page."""
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{id_}".encode()).decode().rstrip("=")


def decode_cursor(text: str) -> tuple[datetime, str]:
    """The (time, id) of a cursor. Raises InvalidInput for a cursor that `encode_cursor` did not make."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        at, _, id_ = raw.partition("|")
        when = datetime.fromisoformat(at)
    except (ValueError, binascii.Error, UnicodeDecodeError):
        when, id_ = None, ""
    if when is None or when.tzinfo is None or not id_ or "\0" in id_:
        raise InvalidInput(
            f"cursor: {text!r} was not issued by this server; leave it out to begin at the newest",
            code="invalid_continue",
            field="cursor",
        )
    return when, id_
