"""Dead letters: which may be replayed, and what an operator needs to know first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ReplayView:
    """A replay of a letter: when, by whom, under which message id."""

    position: int
    identity: str
    number: int
    message_id: str
    replayed_at: datetime
    replayed_by: str


@dataclass(frozen=True, slots=True)
class LetterView:
    """A dead letter. `payload` is the body if it is JSON, `text` otherwise the displayable part of it.

    `occurred_at` is the event's own time, `buried_at` the time of dead-lettering; either may be unknown.
    """

    position: int
    buried_at: datetime | None
    consumer: str
    reason: str
    detail: str
    subject: str
    event_type: str
    event_id: str
    occurred_at: str
    size_bytes: int
    payload: Any
    text: str
    replays: tuple[ReplayView, ...] = ()
    node: str = ""
    """The node whose agent sent it; empty if a service did."""


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """The result of a replay, or with `dry_run` the expected result."""

    position: int
    subject: str
    message_id: str
    dry_run: bool
    replayed_at: datetime | None
    message: str


def message_id_of(identity: str, number: int) -> str:
    """The message id of a replay: new for every replay of a letter, and equal for two concurrent requests, so that the
    broker drops one.
    """
    return f"{identity}:replay-{number}"


def refusal(
    event_id: str,
    subject: str,
    newest: tuple[str, bool] | None,
    replays: Sequence[ReplayView],
    again: bool,
) -> tuple[str, str] | None:
    """(code, message) of the refusal to replay a letter, or None. `newest`: event id on its subject, and whether only
    the last message of the subject counts.
    """
    if not subject:
        return "no_subject", "the letter does not name its subject; it can be read, but not replayed"
    if newest is not None and newest[1] and newest[0] != event_id:
        return "superseded", (
            f"a newer message than this one is in force on {subject}, where only the last one counts: "
            "a replay would restore the old state"
        )
    if replays and not again:
        last = replays[-1]
        return "already_replayed", (
            f"it was replayed at {last.replayed_at:%Y-%m-%d %H:%M:%S} UTC by {last.replayed_by}; "
            "set again=true to replay it once more"
        )
    return None
