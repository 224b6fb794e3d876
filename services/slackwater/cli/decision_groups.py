"""Decisions of one episode as one row. Pure.

Decisions belong together that name the same `episode`; else those of one service about one subject of one node under
one rule, with less than GAP between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from slackwater.cli.decision_list import DECISION
from slackwater.cli.output import Item, TableColumn, lasted, parse_time

GAP = timedelta(minutes=10)


def grouped(decisions: Iterable[Item]) -> list[Item]:
    """One item per group, the newest group first: the newest decision with `steps`, `kinds`, `first_at` and
    its `decisions`.

    `decisions` are sorted, the newest first.
    """
    groups: list[list[Item]] = []
    latest: dict[tuple[Any, ...], int] = {}
    for decision in decisions:
        key = _key(decision)
        place = latest.get(key)
        if place is not None and _continues(groups[place][-1], decision):
            groups[place].append(decision)
        else:
            latest[key] = len(groups)
            groups.append([decision])
    return [_row(group) for group in groups]


def _key(decision: Item) -> tuple[Any, ...]:
    if decision.get("episode"):
        return ("episode", decision["episode"])
    return (decision["node"], decision["subject"], decision["service"], decision["rule"])


def _continues(newer: Item, older: Item) -> bool:
    if newer.get("episode"):
        return True
    return parse_time(newer["decided_at"]) - parse_time(older["decided_at"]) < GAP


def _row(group: Sequence[Item]) -> Item:
    newest, oldest = group[0], group[-1]
    kinds = dict.fromkeys(decision["kind"] for decision in reversed(group))
    return {
        **newest,
        "steps": _steps(group),
        "kinds": list(kinds),
        "first_at": oldest["decided_at"],
        "decisions": group,
    }


def _steps(group: Sequence[Item]) -> int:
    """The steps of an episode so far, which are numbered, because some have no record of their own; else the number of
    decisions.
    """
    return group[0].get("step") or len(group)


def _lasted(item: Item) -> str:
    return lasted(parse_time(item["decided_at"]) - parse_time(item["first_at"]))


_SHARED = {column.title: column for column in DECISION}
GROUP = (
    _SHARED["TIME"],
    TableColumn("KIND", lambda item: "+".join(item["kinds"])),
    _SHARED["NODE"],
    _SHARED["SUBJECT"],
    TableColumn("STEPS", lambda item: str(item["steps"]), right=True),
    TableColumn("LASTED", _lasted, right=True),
    *(_SHARED[title] for title in ("DONE", "CORES", "MEMORY", "PODS", "REASON", "RELIEVED", "ID")),
    *(column for column in DECISION if column.title == "NOTE" or column.wide),
)
"""Columns of a group: what all of its steps did; reason and relief are those of the newest."""
