"""Which event leads to which use case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Received
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import MOVES_TREE
from slackwater.quota.domain.reclaim_grant import answered
from slackwater.quota.usecases.manage_claims import ManageClaims

ANSWERS: Final = "quota-reclaim-answered"


def consumers(claims: ManageClaims) -> Sequence[Consumer[Any]]:
    """The answers to requests for a grant to evict."""

    async def on_answer(received: Received[ReclaimAnswered]) -> None:
        answer = received.event.data
        if answer.tree == MOVES_TREE:
            return
        again_s = None if answer.again_at is None else answer.again_at.timestamp()
        change = partial(
            answered,
            request=answer.id,
            granted=answer.granted,
            until_s=answer.valid_until.timestamp(),
            because=answer.because,
            again_s=again_s,
        )
        await claims.answered(answer.tree, change)

    return (Consumer(ReclaimAnswered, ANSWERS, each(on_answer)),)
