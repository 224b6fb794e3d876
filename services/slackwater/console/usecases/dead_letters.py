"""Lists dead letters and replays them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from slackwater.bus.admin.broker_admin import BrokerAdmin, DeadLetterRow
from slackwater.console.domain.dead_letter_views import LetterView, ReplayAnswer, ReplayView, message_id_of, refusal
from slackwater.console.ports import ReadModel, ReadQueries
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.reading_budget import EVENT, BeyondBudget, check_bytes

TEXT_CHARACTERS = 16_000


async def letters_page(
    reads: ReadQueries, desk: BrokerAdmin, before: int | None, limit: int
) -> tuple[Sequence[LetterView], int | None]:
    """Dead letters, newest first, and the position where the next page begins. Raises Unavailable."""
    letters = await desk.letters(before, limit + 1)
    shown = letters[:limit]
    replays = await reads.replays([letter.identity for letter in shown])
    views = [view_of(letter, replays) for letter in shown]
    return views, shown[-1].position if len(letters) > limit else None


async def existing_letter(reads: ReadQueries, desk: BrokerAdmin, position: int) -> LetterView:
    letter = await _found(desk, position)
    return view_of(letter, await reads.replays([letter.identity]))


async def replay_letter(
    model: ReadModel, desk: BrokerAdmin, position: int, *, by: str, now: datetime, again: bool, dry_run: bool
) -> ReplayAnswer:
    """Publish a letter to its subject, under a new message id, and record the replay.

    The record comes first, so that one of two concurrent requests is refused; it is removed if the broker does not
    answer. Raises NotFound, Conflict with the reason, Unavailable.
    """
    letter = await _found(desk, position)
    done = await model.replays([letter.identity])
    newest = await desk.newest_on(letter.subject) if letter.subject else None
    standing = (newest.event_id, newest.last_value_only) if newest else None
    if command_of(letter.subject):
        raise Conflict(
            f"dead letter {position}: {letter.subject} is a command to a node, which only its writer may publish; no "
            "consumer of Slackwater dead-letters one, so find the sender of this letter",
            code="not_replayable",
        )
    why_not = refusal(letter.event_id, letter.subject, standing, done, again)
    if why_not is not None:
        raise Conflict(f"dead letter {position}: {why_not[1]}", code=why_not[0])
    number = max((each.number for each in done), default=0) + 1
    mark = ReplayView(position, letter.identity, number, message_id_of(letter.identity, number), now, by)
    if dry_run:
        said = f"would publish {len(letter.body)} bytes to {letter.subject}; every consumer of it sees them once more"
        return ReplayAnswer(position, letter.subject, mark.message_id, True, None, said)
    if not await model.note_replay(mark):
        raise Conflict(
            f"dead letter {position}: another request is replaying it; list its replays before you try again",
            code="already_replayed",
        )
    try:
        await desk.put_back(letter.again(mark.message_id))
    except BaseException:
        await model.delete_replay(mark)
        raise
    return ReplayAnswer(position, letter.subject, mark.message_id, False, now, f"published to {letter.subject}")


def command_of(subject: str) -> bool:
    """Whether a message on this subject is a command to a node."""
    return any(subject.startswith(f"sw.v1.{payload.TYPE}.") for payload in EVENTS if payload.COMMAND)


async def _found(desk: BrokerAdmin, position: int) -> DeadLetterRow:
    letter = await desk.letter(position)
    if letter is None:
        raise NotFound(f"dead letter {position} is not stored, or no longer", code="dead_letter_not_found", field="id")
    return letter


def view_of(letter: DeadLetterRow, replays: Sequence[ReplayView]) -> LetterView:
    payload, text = readable(letter.body)
    return LetterView(
        position=letter.position,
        buried_at=letter.buried_at,
        consumer=letter.consumer,
        reason=letter.reason,
        detail=letter.detail,
        subject=letter.subject,
        event_type=letter.event_type,
        event_id=letter.event_id,
        occurred_at=letter.headers.get("ce-time", ""),
        size_bytes=len(letter.body),
        payload=payload,
        text=text,
        replays=tuple(replay for replay in replays if replay.identity == letter.identity),
        node=letter.sender,
    )


def _sayable(payload: Any) -> Any:
    """The payload, checked to be valid in an answer. Raises ValueError for what Python parses as JSON and an answer may
    not hold: NaN, and a lone surrogate.
    """
    json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    return payload


def readable(body: bytes) -> tuple[Any, str]:
    """The body as JSON (None if it is not) and as text that is safe to display."""
    text = body.decode(errors="replace")
    try:
        check_bytes(body, EVENT)
        payload = _sayable(json.loads(body))
        text = json.dumps(payload, indent=2, ensure_ascii=False)
    except (ValueError, BeyondBudget):
        payload = None
    cut = text[:TEXT_CHARACTERS]
    return payload, cut + (f"\n… {len(text) - len(cut)} more characters" if len(text) > len(cut) else "")
