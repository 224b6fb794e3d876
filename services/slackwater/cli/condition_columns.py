"""The scheduling state of a node, as `get nodes` and `describe node` print it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slackwater.cli.output import Item, TableColumn, age, clock_time

CLOSED = "SchedulingClosed"


def _condition(node: Item) -> Any:
    return next((condition for condition in node.get("conditions") or () if condition["type"] == CLOSED), None)


def scheduling(node: Item) -> str:
    """`open`, or `closed` while the node is cordoned for new pods."""
    condition = _condition(node)
    return "closed" if condition is not None and condition["status"] == "True" else "open"


SCHEDULING = TableColumn("SCHEDULING", scheduling)


def scheduling_lines(node: Item, now: datetime) -> list[str]:
    """One line with the scheduling state; while the node is closed, also the rules, the expiry, and the command that
    explains it.
    """
    condition = _condition(node)
    if condition is None:
        return ["New pods:  taken"]
    since = f"since {clock_time(condition['since'])} ({age(condition['since'], now)}), {condition['reason']}"
    if condition["status"] != "True":
        return [f"New pods:  taken {since}"]
    return [
        (
            f"New pods:  not taken {since}, by {', '.join(condition['rules'])}; expires unless renewed at"
            f" {clock_time(condition['valid_until'])}; slackwater why node/{node['name']} scheduling"
        )
    ]
