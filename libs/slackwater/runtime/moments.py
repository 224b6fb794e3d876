"""Times in requests: absolute, or as an age."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from slackwater.model.errors import InvalidInput

_RELATIVE: Final = re.compile(r"-?(\d{1,12}(?:\.\d{1,6})?)(s|m|h|d)", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ALLOWED: Final = "an ISO 8601 time like 2026-01-05T10:32:00Z, or a time ago like 90s, 5m, 2h, 1d"


def moment(text: str, now: datetime, field: str) -> datetime:
    """A time from ISO text (UTC without a zone) or from an age: `5m` is five minutes ago. Raises InvalidInput."""
    relative = _RELATIVE.fullmatch(text.strip())
    try:
        if relative:
            return now - timedelta(seconds=float(relative[1]) * _UNITS[relative[2]])
        parsed = datetime.fromisoformat(text.strip().replace(" ", "+"))  # a query string turns a "+" into a space
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field}: {text!r} is not a time; allowed: {ALLOWED}", code="invalid_time", field=field
        ) from None
