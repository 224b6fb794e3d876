"""Whether a node takes new pods, as `get nodes` and `describe node` print it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slackwater.cli.output import Column, Item, age, clock_time

CLOSED = "SchedulingClosed"


def _condition(node: Item) -> Any:
    return next((one for one in node.get("conditions") or () if one["type"] == CLOSED), None)


def scheduling(node: Item) -> str:
    """`open`, or `closed` when the node takes no new pods."""
    found = _condition(node)
    return "closed" if found is not None and found["status"] == "True" else "open"


SCHEDULING = Column("SCHEDULING", scheduling)


def scheduling_lines(node: Item, now: datetime) -> list[str]:
    """One line with the scheduling state; while the node is closed, also the rules, the expiry, and the command that
    explains it.
    """
    found = _condition(node)
    if found is None:
        return ["New pods:  taken"]
    since = f"since {clock_time(found['since'])} ({age(found['since'], now)}), {found['reason']}"
    if found["status"] != "True":
        return [f"New pods:  taken {since}"]
    return [
        (
            f"New pods:  not taken {since}, by {', '.join(found['rules'])}; without renewal until"
            f" {clock_time(found['valid_until'])}; slackwater why node/{node['name']} scheduling"
        )
    ]
