"""Agents whose messages became dead letters, and agents that an operator has blocked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

RECENT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SenderBlock:
    """The block in force of an agent."""

    reason: str
    changed_by: str
    since: datetime


@dataclass(frozen=True, slots=True)
class SentLetter:
    """A dead letter with the node whose agent sent it; `buried_at` may be unknown."""

    node: str
    position: int
    reason: str
    buried_at: datetime | None


@dataclass(frozen=True, slots=True)
class Sender:
    """An agent with dead letters in the last hour, or blocked. `reasons` are those of the letters with their counts,
    most frequent first; `newest` is the newest letter."""

    node: str
    letters: int
    reasons: tuple[tuple[str, int], ...]
    newest: SentLetter | None
    block: SenderBlock | None


def is_recent(buried_at: datetime | None, now: datetime) -> bool:
    """Whether a letter is not older than an hour; one of unknown age counts."""
    return buried_at is None or now - buried_at <= RECENT


def senders_of(letters: Sequence[SentLetter], blocks: Mapping[str, SenderBlock], now: datetime) -> list[Sender]:
    """Agents with recent letters and agents that are blocked, most letters first. `letters` are newest first."""
    by_node: dict[str, list[SentLetter]] = {node: [] for node in blocks}
    for letter in letters:
        if letter.node and is_recent(letter.buried_at, now):
            by_node.setdefault(letter.node, []).append(letter)
    senders = [
        Sender(
            node=node,
            letters=len(own),
            reasons=tuple(Counter(letter.reason for letter in own).most_common()),
            newest=own[0] if own else None,
            block=blocks.get(node),
        )
        for node, own in by_node.items()
    ]
    return sorted(senders, key=lambda sender: (-sender.letters, sender.node))


def worst_of(senders: Sequence[Sender]) -> Sender | None:
    """The agent with the most recent letters that is not blocked; None if there is none."""
    return next((sender for sender in senders if sender.letters and sender.block is None), None)
