"""Output of `slackwater simulate` for quotas: waiting times by quota and policy, fairness, reclaims, use."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slackwater.cli.output import Item, TableColumn, table
from slackwater.model.errors import InvalidInput

_DAY_S = 86_400.0
_MOST_PERCENT = 1000


def capacity_of(text: str) -> float:
    """Returns the share that `75%` names. Raises InvalidInput."""
    match = re.fullmatch(r"(\d{1,4})%", text)
    if match is None or not 1 <= int(match[1]) <= _MOST_PERCENT:
        raise InvalidInput(
            f"--capacity: {text!r} is not allowed; allowed: whole percents, 1% to {_MOST_PERCENT}%", field="capacity"
        )
    return int(match[1]) / 100


def lines(answer: Item) -> list[str]:
    """The text report."""
    trace, results = answer["trace"], answer["results"]
    heading = (
        f"{trace['source']}: {trace['arrivals']:,} arrivals in {trace['hours']:,g} h, pool of "
        f"{trace['capacity']:.0%} of the largest demand"
    )
    shown = [heading, *trace["notes"], "", *_table("ALL QUOTAS", _figures(results), results), ""]
    for name, text in (("wait_p50_seconds", "WAIT P50"), ("wait_p95_seconds", "WAIT P95")):
        shown += [*_table(text, _by_quota(results, name, duration), results), ""]
    return [*shown, *_table("HAD OF DUE", _by_quota(results, "had_of_due", _share), results), "", *LEGEND]


def duration(seconds: float | None) -> str:
    """A time in the largest unit that leaves at least two digits."""
    if seconds is None:
        return "-"
    for unit, length in (("d", _DAY_S), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f}{unit}"
    return f"{seconds:,.0f}s"


def _figures(results: Sequence[Item]) -> list[Item]:
    rows: list[Item] = [
        {"what": said, "values": [text(result[name]) for result in results]} for name, said, text in FIGURES
    ]
    for resource in results[0]["utilisation"]:
        rows.append(
            {"what": f"used {resource}", "values": [_share(result["utilisation"][resource]) for result in results]}
        )
        if any(result["lost"][resource] for result in results):
            lost = [_share(result["lost"][resource]) for result in results]
            rows.append({"what": "  of the pool, in vain", "values": lost})
    return rows


def _by_quota(results: Sequence[Item], name: str, text: Callable[[float | None], str]) -> list[Item]:
    found = [{quota["quota"]: quota for quota in result["quotas"]} for result in results]
    names = sorted({quota for quotas in found for quota in quotas})
    return [
        {"what": quota, "values": [text(quotas[quota][name]) if quota in quotas else "-" for quotas in found]}
        for quota in names
    ]


def _table(title: str, rows: Sequence[Item], results: Sequence[Item]) -> list[str]:
    columns = [TableColumn(title, lambda row: str(row["what"]))]
    columns += [_column(place, result["name"]) for place, result in enumerate(results)]
    return table(list(rows), columns, wide=False, headers=True)


def _column(place: int, name: str) -> TableColumn:
    return TableColumn(name, lambda row: str(row["values"][place]), right=True)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f}%"


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


FIGURES: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("wait_mean_seconds", "waiting time, mean", duration),
    ("wait_p50_seconds", "waiting time, p50", duration),
    ("wait_p95_seconds", "waiting time, p95", duration),
    ("started", "started", _count),
    ("waiting", "never started", _count),
    ("refused", "refused", _count),
    ("reclaims", "reclaims", _count),
    ("fairness", "Jain's fairness index", _index),
)
LEGEND: Sequence[str] = (
    "Waiting: from arrival to the first start, or to the end of the trace. Due: what a quota requests, up to its fair",
    "share. Fairness: over had of due, 1 is equal. In vain: work of reclaimed claims, which start again from nothing.",
    "Hard quotas: each quota has its fair share for itself. Nodes are not modelled, and every eviction is allowed.",
)
