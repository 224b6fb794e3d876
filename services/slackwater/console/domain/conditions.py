"""Conditions of a node: whether it takes new pods, whether a second agent reports as it, and whether its report lacks
values that no reader takes. Each condition expires unless renewed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from slackwater.console.domain.views import NodeCondition, NodeView

SCHEDULING_CLOSED: Final = "SchedulingClosed"
DUPLICATE_AGENT: Final = "DuplicateAgent"
VALUES_LEFT_OUT: Final = "ValuesLeftOut"
TRUE: Final = "True"
FALSE: Final = "False"
LAPSED: Final = "lapsed"
_LAPSED_MESSAGES: Final = {DUPLICATE_AGENT: "one agent reports", VALUES_LEFT_OUT: "all values are reported as they are"}


def as_of(node: NodeView, now: datetime) -> NodeView:
    """The node with the conditions that are valid at `now`."""
    if not node.conditions:
        return node
    return replace(node, conditions=tuple(_as_of(condition, now) for condition in node.conditions))


def closing(node: NodeView) -> NodeCondition | None:
    """The condition that closes a node read with `as_of`; None if it takes new pods."""
    return _in_force(node, SCHEDULING_CLOSED)


def duplicate(node: NodeView) -> NodeCondition | None:
    """The condition of a second agent of a node read with `as_of`; None if it has one agent."""
    return _in_force(node, DUPLICATE_AGENT)


def left_out(node: NodeView) -> NodeCondition | None:
    """The condition of values that are not reported as they are, of a node read with `as_of`; None if all are."""
    return _in_force(node, VALUES_LEFT_OUT)


def _in_force(node: NodeView, kind: str) -> NodeCondition | None:
    return next(
        (condition for condition in node.conditions if condition.type == kind and condition.status == TRUE), None
    )


def scheduling_message(reason: str, rules: tuple[str, ...], *, closed: bool) -> str:
    """The condition as text: `takes no new pods because of gate.full`."""
    if closed:
        return "takes no new pods because of " + ", ".join(rules)
    return "takes new pods: " + reason.replace("_", " ")


def _as_of(condition: NodeCondition, now: datetime) -> NodeCondition:
    until = condition.valid_until
    if condition.status != TRUE or until is None or now <= until:
        return condition
    opened = f"takes new pods: the condition set by {condition.decision_id} expired without renewal"
    message = _LAPSED_MESSAGES.get(condition.type, opened)
    return replace(condition, status=FALSE, reason=LAPSED, message=message, since=until, valid_until=None)
