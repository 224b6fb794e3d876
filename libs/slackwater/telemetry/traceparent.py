"""W3C trace context, the header alone: `00-<32 hex trace>-<16 hex span>-<2 hex flags>`.

Enough to carry one trace from report to actuation through envelopes and records without any SDK.
"""

from __future__ import annotations

import os
import re

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = "01"


def new_traceparent() -> str:
    """The root of a new trace, sampled."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-{_SAMPLED}"


def child_of(traceparent: str | None) -> str:
    """A new span in the same trace with the same flags; a new trace if there is none, or none that can be read."""
    match = _match(traceparent)
    return f"00-{match[2]}-{_random_hex(8)}-{match[4]}" if match else new_traceparent()


def trace_id_of(traceparent: str | None) -> str | None:
    """The 32 hex digits that all spans of a trace share, or None if this is no traceparent."""
    match = _match(traceparent)
    return match[2] if match else None


def _match(traceparent: str | None) -> re.Match[str] | None:
    """All-zero ids and version ff are invalid by the standard."""
    match = _FORM.fullmatch(traceparent or "")
    if match is None or match[1] == "ff" or set(match[2]) == {"0"} or set(match[3]) == {"0"}:
        return None
    return match


def _random_hex(count: int) -> str:
    while not any(drawn := os.urandom(count)):
        pass  # all zero is not a valid id
    return drawn.hex()
