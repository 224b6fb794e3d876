"""That a node's own words about its strategy cannot be used, or can be again: noted with its state, and told once."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.ports import Followed
from slackwater.events.envelope import Event, event_of
from slackwater.events.strategy_checked import StrategyChecked

SOURCE = "colocation"
_IDS = uuid.UUID("0c0f4e1b-6f55-5f0c-9a55-7d3b1c52a9ce")


def note_followed(
    state: NodeState, followed: Followed, now: datetime, trigger: Event[Any] | None
) -> tuple[NodeState, list[Event[Any]]]:
    """The state with what is wrong with the node's words, and the event about it if that is news."""
    if followed.reason == state.strategy_problem:
        return state, []
    noted = replace(state, strategy_problem=followed.reason)
    found = StrategyChecked(
        node=state.node,
        usable=not followed.reason,
        problem=followed.reason,
        followed=followed.sources,
        checked_at=now,
    )
    return noted, [checked_event(found, now, trigger, cause=trigger.id if trigger else now.isoformat())]


def checked_event(found: StrategyChecked, now: datetime, trigger: Event[Any] | None, *, cause: str) -> Event[Any]:
    """With the same id whenever the same is found again for the same cause."""
    identity = uuid.uuid5(_IDS, f"{found.key()}|{found.generation}|{found.problem}|{cause}")
    return event_of(found, source=SOURCE, time=now, causedby=trigger, id=str(identity))
