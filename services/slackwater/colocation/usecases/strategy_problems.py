"""Records with the node's state whether its annotations and labels about strategies can be used, and publishes
changes.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from slackwater.colocation.ports import FollowedStrategy
from slackwater.events.envelope import Event, event_of
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.offers.node import NodeState

SOURCE = "colocation"
_IDS = uuid.UUID("0c0f4e1b-6f55-5f0c-9a55-7d3b1c52a9ce")


def note_followed(
    state: NodeState, followed: FollowedStrategy, now: datetime, trigger: Event[Any] | None
) -> tuple[NodeState, list[Event[Any]]]:
    """Returns the state with the problem of the node's annotations and labels, and an event if it has changed."""
    if followed.reason == state.strategy_problem:
        return state, []
    noted = replace(state, strategy_problem=followed.reason)
    checked = StrategyChecked(
        node=state.node,
        usable=not followed.reason,
        problem=followed.reason,
        followed=followed.sources,
        checked_at=now,
    )
    return noted, [checked_event(checked, now, trigger, cause=trigger.id if trigger else now.isoformat())]


def checked_event(checked: StrategyChecked, now: datetime, trigger: Event[Any] | None, *, cause: str) -> Event[Any]:
    """Builds the event, with the same id for the same finding and cause."""
    identity = uuid.uuid5(_IDS, f"{checked.key()}|{checked.generation}|{checked.problem}|{cause}")
    return event_of(checked, source=SOURCE, time=now, causedby=trigger, id=str(identity))
