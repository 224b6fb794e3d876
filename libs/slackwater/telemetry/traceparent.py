"""W3C trace context, the header alone: `00-<32 hex trace>-<16 hex span>-<2 hex flags>`.

Enough to carry one trace from report to actuation through envelopes and records without any SDK.
"""

from __future__ import annotations

import os
import re

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED, _UNSAMPLED = "01", "00"
_ODD = frozenset("13579bdf")


def new_traceparent(*, sampled: bool = True) -> str:
    """The root of a new trace. What is not sampled is carried on all the same, and exported by nobody."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-{_SAMPLED if sampled else _UNSAMPLED}"


def child_of(traceparent: str | None) -> str:
    """A new span in the same trace with the same flags; a new trace if there is none, or none that can be read."""
    match = _match(traceparent)
    return f"00-{match[2]}-{_random_hex(8)}-{match[4]}" if match else new_traceparent()


def trace_id_of(traceparent: str | None) -> str | None:
    """The 32 hex digits that all spans of a trace share, or None if this is no traceparent."""
    match = _match(traceparent)
    return match[2] if match else None


def span_id_of(traceparent: str | None) -> str | None:
    """The 16 hex digits of the span itself, or None if this is no traceparent."""
    match = _match(traceparent)
    return match[3] if match else None


def is_sampled(traceparent: str | None) -> bool:
    """Whether whoever began the trace wants it exported. Looks at the flag alone: asked for every message."""
    return traceparent is not None and len(traceparent) == 55 and traceparent[-1] in _ODD


def sampled(traceparent: str | None) -> str:
    """The same span, to be exported from here on: what comes of it is worth a trace even if its cause was not."""
    match = _match(traceparent)
    return f"00-{match[2]}-{match[3]}-{_SAMPLED}" if match else new_traceparent()


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
