"""A node that is closed for new pods, as others were last told, and when they have to be told anew.

A closing is a loan of time: it counts until `until`, and while the node still reports and its rules still hold it, it
is told again when half of the time is over. Nobody has to be alive for it to end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from slackwater.waterline.analysis.scheduling import Scheduling, reopened

VALID_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Closed:
    """What was told: since when, by which rules and decision, and until when it counts."""

    decision_id: str
    reason: str
    since: datetime
    rules: tuple[str, ...]
    until: datetime


class Word(StrEnum):
    """What has to be told."""

    CLOSED = "closed"
    STILL = "still"
    OPENED = "opened"


def lapsed(told: Closed | None, now: datetime) -> bool:
    """Nobody has renewed it in time: to everybody else the node is open."""
    return told is not None and now > told.until


def as_others_see_it(scheduling: Scheduling, told: Closed | None, now: datetime) -> Scheduling:
    """What the next cycle begins with: a closing that has lapsed is over, and only a trigger of now closes anew."""
    return reopened(scheduling) if lapsed(told, now) else scheduling


def word_for(scheduling: Scheduling, told: Closed | None, now: datetime, valid_seconds: float) -> Word | None:
    """What others have to hear about the state after a cycle; None: they know it."""
    if not scheduling.is_disabled:
        return None if told is None else Word.OPENED
    if told is None or lapsed(told, now):
        return Word.CLOSED
    due = now >= told.until - timedelta(seconds=valid_seconds / 2)
    return Word.STILL if due or told.rules != scheduling.because else None


def renewed(told: Closed, scheduling: Scheduling, now: datetime, valid_seconds: float) -> Closed:
    """The same closing, for as long again; more rules may hold it now."""
    return replace(told, rules=scheduling.because, until=now + timedelta(seconds=valid_seconds))
