"""Groups the recent dead letters by the node whose agent sent them, and adds the blocked agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.console.domain.senders import Sender, SenderBlock, SentLetter, is_recent, senders_of, worst_of
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock

PAGE = 100
MOST = 500
"""Maximum number of letters read: each is one request to the broker."""
KEPT = timedelta(seconds=5)


class Senders:
    """Reads letters at most once in KEPT, for any number of pages. Blocks are those that the bus reports now."""

    def __init__(self, desk: BrokerAdmin, blocks: Callable[[], Blocks], clock: Clock) -> None:
        self._desk = desk
        self._blocks = blocks
        self._clock = clock
        self._letters: Sequence[SentLetter] = ()
        self._read_at: datetime | None = None
        self._turn = asyncio.Lock()

    async def __call__(self) -> Sequence[Sender]:
        """Agents by number of letters. While the broker does not answer: only the blocked agents."""
        now = self._clock.now()
        async with self._turn:
            if self._read_at is None or not timedelta() <= now - self._read_at < KEPT:
                self._letters, self._read_at = await self._recent(now), now
        return senders_of(self._letters, self._in_force(), now)

    async def of(self, node: str) -> Sender | None:
        """The agent of a node; None if it is not blocked and has no recent dead letter."""
        return next((sender for sender in await self() if sender.node == node), None)

    async def worst(self) -> Sender | None:
        """The agent with the most recent dead letters that is not blocked."""
        return worst_of(await self())

    def _in_force(self) -> dict[str, SenderBlock]:
        return {
            node: SenderBlock(change.reason, change.changed_by, change.since)
            for node, change in self._blocks().in_force().items()
        }

    async def _recent(self, now: datetime) -> Sequence[SentLetter]:
        letters: list[SentLetter] = []
        before: int | None = None
        try:
            while len(letters) < MOST:
                page = await self._desk.letters(before, PAGE)
                letters += [
                    SentLetter(letter.sender, letter.position, letter.reason, letter.buried_at) for letter in page
                ]
                if len(page) < PAGE or not is_recent(page[-1].buried_at, now):
                    break
                before = page[-1].position
        except Unavailable:
            return ()
        return letters
