"""The budget of a node's decision records: whole records, then compact ones, then steps listed in a later record.

A bucket of bytes per node, refilled over time: within any time a node publishes at most `burst_bytes` and what is
refilled, whatever its rules decide. Every decision is still carried out and counted. Evictions are always recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Replay, StepSummary
from slackwater.model.bounds import Count, Items, Moment, Name

HOUR: Final = timedelta(hours=1)
MOST_LISTED: Final = 100
"""The newest steps are listed by their time and pods; earlier ones are counted."""
_LISTINGS: Final = (MOST_LISTED, 20, 5)
"""How many of the newest steps a compact record lists, as many as fit. Without the shorter lists, a hundred steps would
wait for hours until the bucket holds them all, and the node would have no record meanwhile.
"""
STEP_SPACING: Final = timedelta(seconds=60)
"""While less than half of the burst is left, steps share one record per such time, which lists them. The end of an
episode has its own, because lists would otherwise show a throttle that is over.
"""
_ENDS: Final = frozenset({Reason.RESTORE_COMPLETE, Reason.RESTORE_WITHOUT_EFFECT})
_ALWAYS: Final = frozenset({DecisionKind.EVICT, DecisionKind.AUTONOMY})


SizeOf = Callable[[DecisionRecord], int]
"""The bytes that a record costs in the stream, with what follows from it."""


class RecordForm(StrEnum):
    """How a decision was recorded."""

    FULL = "full"
    COMPACT = "compact"
    LISTED = "listed"


@dataclass(frozen=True, slots=True)
class RecordBudget:
    """Bytes that a node may publish at once after a calm time, and per hour."""

    burst_bytes: int
    bytes_per_hour: int

    def most_bytes(self, duration: timedelta) -> int:
        """The most that one node publishes within any such time, without evictions."""
        return self.burst_bytes + self.bytes_per_hour * (duration // timedelta(seconds=1)) // 3600


@dataclass(frozen=True, slots=True)
class RecordAccount:
    """One node's episode and bucket. `left_bytes` at `at`; None: full. `waiting` are steps of no record yet;
    `recorded_at` is when the last step had one.
    """

    episode: Name = ""
    steps: Count = 0
    left_bytes: int = 0
    at: Moment | None = None
    waiting: Items[StepSummary] = ()
    waiting_beyond: Count = 0
    recorded_at: Moment | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A decision after its budget: the record to publish, or None for a step that a later record lists."""

    record: DecisionRecord | None
    form: RecordForm
    account: RecordAccount


def recorded(
    account: RecordAccount,
    record: DecisionRecord,
    budget: RecordBudget,
    now: datetime,
    size_of: SizeOf,
    *,
    continues: bool,
) -> Recorded:
    """Records one decision within the budget. `continues`: the episode of the account is still open."""
    episode = account.episode if continues and account.episode else record.id
    step = account.steps + 1 if episode == account.episode else 1
    numbered = record.model_copy(
        update={
            "episode": episode,
            "step": step,
            "listed": account.waiting,
            "listed_beyond": account.waiting_beyond,
        }
    )
    left = left_bytes(account, budget, now)
    is_recent = account.recorded_at is not None and now - account.recorded_at < STEP_SPACING
    is_close = is_recent and record.reason not in _ENDS
    reserve = budget.burst_bytes // 2 if is_close else 0
    compact = compacted(numbered)
    forms = [(RecordForm.FULL, numbered), *((RecordForm.COMPACT, with_newest(compact, most)) for most in _LISTINGS)]
    if record.kind in _ALWAYS:
        forms = forms[:2]
    for form, candidate in forms:
        size = size_of(candidate)
        if size <= left - reserve or (form is RecordForm.COMPACT and record.kind in _ALWAYS):
            spent = RecordAccount(episode, step, max(0, left - size), now, recorded_at=now)
            return Recorded(candidate, form, spent)
    waiting = (*account.waiting, summary_of(record))
    return Recorded(
        None,
        RecordForm.LISTED,
        replace(
            account,
            episode=episode,
            steps=step,
            left_bytes=left,
            at=now,
            waiting=waiting[-MOST_LISTED:],
            waiting_beyond=account.waiting_beyond + max(0, len(waiting) - MOST_LISTED),
        ),
    )


def left_bytes(account: RecordAccount, budget: RecordBudget, now: datetime) -> int:
    """What the bucket holds now. A clock that went back refills nothing."""
    if account.at is None:
        return budget.burst_bytes
    refilled = budget.bytes_per_hour * max(timedelta(), now - account.at) // HOUR
    return min(budget.burst_bytes, account.left_bytes + refilled)


def compacted(record: DecisionRecord) -> DecisionRecord:
    """The record without replay arguments and alternatives. It cannot be replayed, and says so."""
    return record.model_copy(
        update={"compact": True, "alternatives": (), "replay": Replay(function=record.replay.function, arguments={})}
    )


def with_newest(record: DecisionRecord, most: int) -> DecisionRecord:
    """The record with the newest `most` of its listed steps; earlier ones are counted."""
    cut = max(0, len(record.listed) - most)
    if not cut:
        return record
    return record.model_copy(update={"listed": record.listed[cut:], "listed_beyond": record.listed_beyond + cut})


def summary_of(record: DecisionRecord) -> StepSummary:
    """One line about a decision, for the record that lists it."""
    return StepSummary(
        id=record.id,
        kind=record.kind,
        reason=record.reason,
        decided_at=record.decided_at,
        result=record.result,
        unit=record.unit,
        pods=len(record.actions),
    )
