"""The W3C `traceparent` header: `00-<32 hex trace>-<16 hex span>-<2 hex flags>`.

Propagates a trace from report to actuation through envelopes and records without an SDK.
"""

from __future__ import annotations

import os
import re

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED, _UNSAMPLED = "01", "00"
_ODD = frozenset("13579bdf")


def new_traceparent(*, sampled: bool = True) -> str:
    """The root of a new trace. An unsampled trace is propagated too, but not exported."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-{_SAMPLED if sampled else _UNSAMPLED}"


def child_of(traceparent: str | None) -> str:
    """A new span in the same trace with the same flags; a new trace if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return f"00-{match[2]}-{_random_hex(8)}-{match[4]}" if match else new_traceparent()


def trace_id_of(traceparent: str | None) -> str | None:
    """The trace id (32 hex digits); None if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return match[2] if match else None


def span_id_of(traceparent: str | None) -> str | None:
    """The span id (16 hex digits); None if `traceparent` is None or invalid."""
    match = _match(traceparent)
    return match[3] if match else None


def is_sampled(traceparent: str | None) -> bool:
    """Whether the sampled flag is set. Checks only length and flag, because it is called for every message."""
    return traceparent is not None and len(traceparent) == 55 and traceparent[-1] in _ODD


def sampled(traceparent: str | None) -> str:
    """The same span with the sampled flag set, so that later steps are exported even if the cause was not."""
    match = _match(traceparent)
    return f"00-{match[2]}-{match[3]}-{_SAMPLED}" if match else new_traceparent()


def _match(traceparent: str | None) -> re.Match[str] | None:
    """The parts of a valid header; None otherwise. All-zero ids and version ff are invalid by the standard."""
    match = _FORM.fullmatch(traceparent or "")
    if match is None or match[1] == "ff" or set(match[2]) == {"0"} or set(match[3]) == {"0"}:
        return None
    return match


def _random_hex(count: int) -> str:
    while not any(drawn := os.urandom(count)):
        pass  # all zero is not a valid id
    return drawn.hex()
