"""The scheduling state of a node, as `get nodes` and `describe node` print it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slackwater.cli.output import Item, TableColumn, age, clock_time

CLOSED, DUPLICATE, LEFT_OUT = "SchedulingClosed", "DuplicateAgent", "ValuesLeftOut"


def _condition(node: Item, kind: str = CLOSED) -> Any:
    return next((condition for condition in node.get("conditions") or () if condition["type"] == kind), None)


def scheduling(node: Item) -> str:
    """`cordoned` while no new pod may be placed on the node, else `schedulable`."""
    condition = _condition(node)
    return "cordoned" if condition is not None and condition["status"] == "True" else "schedulable"


SCHEDULING = TableColumn("SCHEDULING", scheduling)


def scheduling_lines(node: Item, now: datetime) -> list[str]:
    """One line with the scheduling state; while the node is cordoned, also the rules, the expiry, and the command that
    explains it.
    """
    condition = _condition(node)
    if condition is None:
        return ["Placement: schedulable"]
    since = f"since {clock_time(condition['since'])} ({age(condition['since'], now)}), {condition['reason']}"
    if condition["status"] != "True":
        return [f"Placement: schedulable {since}"]
    return [
        (
            f"Placement: cordoned {since}, by {', '.join(condition['rules'])}; expires unless renewed at"
            f" {clock_time(condition['valid_until'])}; slackwater why node/{node['name']} scheduling"
        )
    ]


def duplicate_lines(node: Item, now: datetime) -> list[str]:
    """One line while a second agent reports as the node; none otherwise."""
    condition = _condition(node, DUPLICATE)
    if condition is None or condition["status"] != "True":
        return []
    since = f"since {clock_time(condition['since'])} ({age(condition['since'], now)})"
    return [f"Duplicate: {since}, {condition['message']}"]


def left_out_lines(node: Item) -> list[str]:
    """One line for each value that the agent does not report as it is; none otherwise."""
    condition = _condition(node, LEFT_OUT)
    if condition is None or condition["status"] != "True":
        return []
    return [f"Left out:  {value}" for value in condition["message"].split("; ")]
