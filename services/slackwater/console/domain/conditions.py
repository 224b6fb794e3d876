"""What holds of a node besides its numbers: whether it takes new pods. Nothing here is true for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from slackwater.console.domain.views import NodeCondition, NodeView

SCHEDULING_CLOSED: Final = "SchedulingClosed"
TRUE: Final = "True"
FALSE: Final = "False"
LAPSED: Final = "lapsed"


def as_of(node: NodeView, now: datetime) -> NodeView:
    """The node with its conditions as they count at `now`."""
    if not node.conditions:
        return node
    return replace(node, conditions=tuple(_as_of(one, now) for one in node.conditions))


def closing(node: NodeView) -> NodeCondition | None:
    """What closes a node that was read with `as_of`; None: it takes new pods."""
    return next((one for one in node.conditions if one.type == SCHEDULING_CLOSED and one.status == TRUE), None)


def scheduling_message(reason: str, rules: tuple[str, ...], *, closed: bool) -> str:
    """In words: `takes no new pods because of gate.full`."""
    if closed:
        return "takes no new pods because of " + ", ".join(rules)
    return "takes new pods: " + reason.replace("_", " ")


def _as_of(condition: NodeCondition, now: datetime) -> NodeCondition:
    until = condition.valid_until
    if condition.status != TRUE or until is None or now <= until:
        return condition
    message = f"takes new pods: nobody has renewed the closing by {condition.decision_id}"
    return replace(condition, status=FALSE, reason=LAPSED, message=message, since=until, valid_until=None)
