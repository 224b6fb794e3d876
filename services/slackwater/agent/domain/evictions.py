"""Whether an eviction may begin: once per id, never late, never without a living lease, never the protected."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


@dataclass(frozen=True, slots=True)
class EvictionRequest:
    """One eviction as a writer requests it. `cause` is the id of the event that carried it, `traceparent` its span."""

    id: str
    pod_uid: str
    writer: str
    grace_seconds: float
    deadline: datetime
    decision_id: str
    reason: str
    cause: str
    traceparent: str | None = None


class Verdict(Enum):
    """What to do with an eviction that is new. WAIT: nothing now, consider it again."""

    START = "start"
    WAIT = "wait"
    EXPIRED = "expired"
    ALREADY_GONE = "already_gone"
    REFUSED = "refused"


def judge(
    request: EvictionRequest, *, lease_alive: bool, pod_lives: bool, protected: str | None, now: datetime
) -> Verdict:
    """The first rule that applies."""
    if now >= request.deadline:
        return Verdict.EXPIRED
    if not lease_alive:
        return Verdict.WAIT
    if not pod_lives:
        return Verdict.ALREADY_GONE
    if protected is not None:
        return Verdict.REFUSED
    return Verdict.START
