"""The cordon of a node as it was last published, and when it has to be published again.

A cordon expires at `until`. While the node reports and its rules still trigger, it is renewed when half of its time is
over. It ends without any process running.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from slackwater.waterline.analysis.scheduling import Scheduling, reopened

VALID_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class CordonNotice:
    """A published cordon: its decision, rules, start and expiry."""

    decision_id: str
    reason: str
    since: datetime
    rules: tuple[str, ...]
    until: datetime


class CordonMessage(StrEnum):
    """What has to be published."""

    CLOSED = "closed"
    STILL = "still"
    OPENED = "opened"


def lapsed(told: CordonNotice | None, now: datetime) -> bool:
    """Whether the cordon has expired: other services then treat the node as schedulable."""
    return told is not None and now > told.until


def as_others_see_it(scheduling: Scheduling, told: CordonNotice | None, now: datetime) -> Scheduling:
    """The state that the next cycle starts with. An expired cordon is over, and only a new trigger cordons again."""
    return reopened(scheduling) if lapsed(told, now) else scheduling


def cordon_message(
    scheduling: Scheduling, told: CordonNotice | None, now: datetime, valid_seconds: float
) -> CordonMessage | None:
    """What has to be published about the state after a cycle; None: nothing has changed."""
    if not scheduling.is_disabled:
        return None if told is None else CordonMessage.OPENED
    if told is None or lapsed(told, now):
        return CordonMessage.CLOSED
    due = now >= told.until - timedelta(seconds=valid_seconds / 2)
    return CordonMessage.STILL if due or told.rules != scheduling.because else None


def renewed(told: CordonNotice, scheduling: Scheduling, now: datetime, valid_seconds: float) -> CordonNotice:
    """The same cordon with a new expiry and the rules that keep it now."""
    return replace(told, rules=scheduling.because, until=now + timedelta(seconds=valid_seconds))
