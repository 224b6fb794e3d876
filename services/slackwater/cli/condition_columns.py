"""Whether a node takes new pods, as `get nodes` and `describe node` show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slackwater.cli.output import Column, Item, age, clock_time

CLOSED = "SchedulingClosed"


def _condition(node: Item) -> Any:
    return next((one for one in node.get("conditions") or () if one["type"] == CLOSED), None)


def scheduling(node: Item) -> str:
    """`open`, or `closed`: it takes no new pods."""
    found = _condition(node)
    return "closed" if found is not None and found["status"] == "True" else "open"


SCHEDULING = Column("SCHEDULING", scheduling)


def scheduling_lines(node: Item, now: datetime) -> list[str]:
    """One line; while it is closed with the rules, until when, and how to ask why."""
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
