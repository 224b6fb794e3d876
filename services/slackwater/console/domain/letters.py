"""Dead letters: what may be replayed, and what an operator should know before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ReplayView:
    """A letter was given another chance: when, by whom, under which message id."""

    position: int
    identity: str
    number: int
    message_id: str
    replayed_at: datetime
    replayed_by: str


@dataclass(frozen=True, slots=True)
class LetterView:
    """A dead letter. `payload` is the body if it is JSON, `text` what can be shown of it otherwise.

    `occurred_at` is the event's own time, `buried_at` when it was given up; either may be unknown.
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
    """What a replay did, or with `dry_run` would do."""

    position: int
    subject: str
    message_id: str
    dry_run: bool
    replayed_at: datetime | None
    message: str


def message_id_of(identity: str, number: int) -> str:
    """New for every replay of a letter, and the same when two ask for the same one at once: the broker drops one."""
    return f"{identity}:replay-{number}"


def refusal(
    event_id: str,
    subject: str,
    newest: tuple[str, bool] | None,
    replays: Sequence[ReplayView],
    again: bool,
) -> tuple[str, str] | None:
    """(code, message) why this letter is not replayed, or None. `newest`: event id on its subject, and whether only
    the last message of the subject counts."""
    if not subject:
        return "no_subject", "the letter does not say where it came from; it can be read, but not replayed"
    if newest is not None and newest[1] and newest[0] != event_id:
        return "superseded", (
            f"a newer message than this one is in force on {subject}, where only the last one counts: "
            "replaying would put the old state back"
        )
    if replays and not again:
        last = replays[-1]
        return "already_replayed", (
            f"it was replayed at {last.replayed_at:%Y-%m-%d %H:%M:%S} UTC by {last.replayed_by}; "
            "ask with again=true to replay it once more"
        )
    return None
