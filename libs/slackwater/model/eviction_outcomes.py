"""How an eviction ends."""

from __future__ import annotations

from enum import StrEnum


class EvictionOutcome(StrEnum):
    """How an eviction ended."""

    TERMINATED = "terminated"
    KILLED = "killed"
    ALREADY_GONE = "already_gone"
    EXPIRED = "expired"
    REFUSED = "refused"
    FAILED = "failed"
