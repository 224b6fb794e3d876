"""Decisions as `get` prints them, and the filters of their list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.cli.output import UNKNOWN, Item, TableColumn, amount, clock_time
from slackwater.model.errors import InvalidInput

PATH = "/v1/decisions"
FILTERS = ("kind", "reason", "pod", "spared", "carriedOut", "subject", "since", "until")
"""Parameters of GET /v1/decisions beside node, pool and limit, with the same names."""


def question(path: str, node: str | None, pool: str | None, where: Sequence[str] | None, limit: int) -> dict[str, Any]:
    """The parameters of the list of decisions; empty for other lists. Raises InvalidInput that names the option."""
    if path != PATH:
        if where:
            raise InvalidInput(
                "--where is for decisions: `slackwater get decisions --where kind=evict`", field="--where"
            )
        return {}
    parameters: dict[str, Any] = {"node": node, "pool": pool, "limit": limit}
    for condition in where or ():
        name, equals, value = condition.partition("=")
        if name not in FILTERS or not equals or not value:
            allowed = ", ".join(f"{known}=…" for known in FILTERS)
            raise InvalidInput(f"--where: {condition!r} is not a filter; allowed: {allowed}", field="--where")
        parameters[name] = value
    return parameters


def _text(name: str, *, wide: bool = False) -> TableColumn:
    return TableColumn(name.upper(), lambda item: str(item.get(name) or UNKNOWN), wide=wide)


def _relieved(item: Item) -> str:
    return {None: UNKNOWN, True: "yes", False: "no"}[item.get("relieved")]


def _result(item: Item) -> str:
    """The result of a decision; a throttle that found nothing to reclaim shows words instead of a number."""
    return "nothing" if item["kind"] == "throttle" and not item["result"] else amount(item["result"], item["unit"])


def _remaining(item: Item) -> str:
    if not item["remaining"]:
        return UNKNOWN
    because = f": {item['remaining_because']}" if item["remaining_because"] else ""
    return amount(item["remaining"], item["unit"]) + because


DECISION = (
    TableColumn("TIME", lambda item: clock_time(item["decided_at"])),
    _text("kind"),
    _text("node"),
    _text("subject"),
    TableColumn("RESULT", _result, right=True),
    _text("reason"),
    TableColumn("RELIEVED", _relieved),
    _text("id"),
    TableColumn("REMAINING", _remaining),
    _text("service", wide=True),
    _text("rule", wide=True),
    _text("mode", wide=True),
    TableColumn("PODS", lambda item: str(len(item["actions"])), right=True, wide=True),
)
