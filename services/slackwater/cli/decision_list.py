"""Decisions and stored events as `get` prints them, and the filters of their lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from slackwater.cli.events import words_of
from slackwater.cli.output import UNKNOWN, Item, TableColumn, amount, clock_time
from slackwater.decisions.effects import PodEffect, RowEffect, StepEffect, effect_of, pods_text
from slackwater.decisions.reasons import DecisionKind
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import format_memory

PATH = "/v1/decisions"
EVENTS = "/v1/events"
FILTERS = ("kind", "reason", "pod", "spared", "carriedOut", "subject", "since", "until", "node", "pool")
"""Parameters of GET /v1/decisions beside limit, with the same names; node and pool are options, too."""
EVENT_FILTERS = ("types", "trace", "since", "until", "node")
"""Parameters of GET /v1/events beside limit, with the same names."""


_WITHOUT_AMOUNT = frozenset({"claim", "throttle"})
"""Kinds whose result is no amount of their own: what is left after a claim, and what a throttle without pods lacks."""
_AMOUNTS = frozenset({"offer", "status", "prediction"})
"""Kinds that decide an amount, of which 0 is one: an offer that fell to nothing."""
UNLISTED = DecisionKind.PREDICTION.value
"""Every node has one a minute, so that they hide the others."""


def question(
    path: str, node: str | None, pool: str | None, where: Sequence[str] | None, limit: int, *, every: bool = True
) -> dict[str, Any]:
    """The parameters of the list of decisions or events; empty for other lists, whose rows `get` selects by their
    cells. Without `every`, no predictions unless a filter names a kind.

    Raises InvalidInput that names the option.
    """
    if path not in (PATH, EVENTS):
        return {}
    if path == EVENTS and pool is not None:
        raise InvalidInput("--pool: events have no list by pool; allowed: offers, decisions", field="--pool")
    filters = FILTERS if path == PATH else EVENT_FILTERS
    parameters: dict[str, Any] = {"node": node, "limit": limit, **({"pool": pool} if path == PATH else {})}
    for condition in where or ():
        name, equals, value = condition.partition("=")
        if name not in filters or not equals or not value:
            close = get_close_matches(name, filters, n=1) if name not in filters else []
            hint = f"did you mean {close[0]}=…?" if close else f"allowed: {', '.join(f'{one}=…' for one in filters)}"
            raise InvalidInput(f"--where: {condition!r} is not a filter; {hint}", field="--where")
        parameters[name] = value
    if path == PATH and not every:
        parameters |= {} if "kind" in parameters else {"excludeKind": UNLISTED}
    return parameters


EVENT = (
    TableColumn("TIME", lambda item: clock_time(item["time"])),
    TableColumn("TYPE", lambda item: item["type"]),
    TableColumn("NODE", lambda item: item["node"] or UNKNOWN),
    TableColumn("WHAT", lambda item: words_of(item)[1]),
    TableColumn("SOURCE", lambda item: item["source"], wide=True),
    TableColumn("TRACE", lambda item: item["trace"] or UNKNOWN, wide=True),
    TableColumn("ID", lambda item: item["id"], wide=True),
)


def _text(name: str, *, wide: bool = False) -> TableColumn:
    return TableColumn(name.upper(), lambda item: str(item.get(name) or UNKNOWN), wide=wide)


def _relieved(item: Item) -> str:
    return {None: UNKNOWN, True: "yes", False: "no"}[item.get("relieved")]


def step_of(item: Item) -> StepEffect:
    """What a decision did, of its JSON."""
    pods = []
    for action in item["actions"]:
        released, name = (action.get("memory") or {}).get("released_bytes", 0), action["pod_name"]
        pods.append(PodEffect(action["pod_uid"], name, action["released_milli"], released, action["evicted"]))
    return StepEffect(item["kind"], item["mode"], item["reason"], pods)


def _effect(item: Item) -> RowEffect:
    """What the decision did; of a group, all of its steps."""
    return effect_of([step_of(decision) for decision in item.get("decisions", [item])])


def _amount_in(unit: str) -> Callable[[Item], str]:
    """A cell of a column with one unit: cores, or memory."""

    def text(item: Item) -> str:
        effect = _effect(item)
        value = effect.cpu_milli if unit == "milli" else effect.memory_bytes
        is_own = item["kind"] not in _WITHOUT_AMOUNT and item["unit"].startswith(unit)
        if not value and is_own:
            value = item["result"]
        if not value and not (is_own and item["kind"] in _AMOUNTS):
            return UNKNOWN
        return f"{value / 1000:.10g}" if unit == "milli" else format_memory(value)

    return text


def _done(item: Item) -> str:
    return str(_effect(item).standing)


def _pods(item: Item) -> str:
    """Evicted pods are marked: a limit is lifted again, and an end is not."""
    effect = _effect(item)
    limited = [name for name in effect.limited if name not in effect.evicted]
    return pods_text([*(f"{name} (evicted)" for name in effect.evicted), *limited]) or UNKNOWN


def _remaining(item: Item) -> str:
    if item["kind"] == "claim":  # what was asked and given, and why not more
        return item["remaining_because"] or UNKNOWN
    if not item["remaining"]:
        return UNKNOWN
    because = f": {item['remaining_because']}" if item["remaining_because"] else ""
    return amount(item["remaining"], item["unit"]) + because


DECISION = (
    TableColumn("TIME", lambda item: clock_time(item["decided_at"])),
    _text("kind"),
    _text("node"),
    _text("subject"),
    TableColumn("DONE", _done),
    TableColumn("CORES", _amount_in("milli"), right=True),
    TableColumn("MEMORY", _amount_in("byte"), right=True),
    TableColumn("PODS", _pods),
    _text("reason"),
    TableColumn("RELIEVED", _relieved),
    _text("id"),
    TableColumn("NOTE", _remaining),
    _text("service", wide=True),
    _text("rule", wide=True),
    _text("mode", wide=True),
)
