"""Which event leads to which use case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Received
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import MOVES_TREE
from slackwater.intents.controls import MIGRATION
from slackwater.migration.domain.stored_jobs import EvictionAnswer, GrantAnswer
from slackwater.migration.ports import MigrationStore
from slackwater.migration.usecases.propose_moves import ProposeMoves
from slackwater.model.time import Clock

COMPLETIONS: Final = "migration-eviction-completed"
ANSWERS: Final = "migration-reclaim-answered"
PROPOSALS: Final = "migration-move-proposed"


def consumers(
    store: MigrationStore, propose: ProposeMoves, clock: Clock, ended: Callable[[str], None]
) -> Sequence[Consumer[Any]]:
    """Answers are kept by whichever replica reads them; the next round of the owner reads them there. `ended` is
    called with the key of an answer to an eviction."""

    async def on_completed(received: Received[EvictionCompleted]) -> None:
        seen = received.event.data
        if seen.writer == MIGRATION.name:
            completed_s = seen.completed_at.timestamp()
            received_s = clock.now().timestamp()
            said = EvictionAnswer(seen.node, seen.id, seen.outcome.value, seen.detail, completed_s, received_s)
            await store.answer(said)
            ended(said.key)

    async def on_answered(received: Received[ReclaimAnswered]) -> None:
        said = received.event.data
        if said.tree == MOVES_TREE:
            again_s = None if said.again_at is None else said.again_at.timestamp()
            until_s = said.valid_until.timestamp()
            await store.answer(GrantAnswer(said.id, tuple(said.granted), said.because, again_s, until_s))

    async def on_proposed(received: Received[MoveProposed]) -> None:
        await propose(received.event.data)

    return (
        Consumer(MoveProposed, PROPOSALS, each(on_proposed)),
        Consumer(EvictionCompleted, COMPLETIONS, each(on_completed)),
        Consumer(ReclaimAnswered, ANSWERS, each(on_answered)),
    )
