"""The record of an eviction: started, ended, published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slackwater.model.eviction_outcomes import EvictionOutcome

SIGNALLED: Final = frozenset({None, EvictionOutcome.TERMINATED.value, EvictionOutcome.KILLED.value})
"""Outcomes of evictions that have sent signals; None: it runs."""


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """`outcome` is None while it runs; `published` once the bus has stored the completion."""

    id: str
    pod_uid: str
    writer: str
    decision_id: str
    deadline: datetime
    grace_seconds: float
    started_at: datetime
    cause: str = ""
    outcome: str | None = None
    detail: str = ""
    completed_at: datetime | None = None
    published: bool = False
    traceparent: str | None = None
    """The span that the completion continues; stored, so that a restart does not end the trace."""
