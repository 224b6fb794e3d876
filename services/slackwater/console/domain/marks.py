"""Actions on a node as marks of its timeline: labelled with the decision and linked to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.charts.marks import ChartMark
from slackwater.charts.units import seconds
from slackwater.console.domain.candidates import GUARDING
from slackwater.console.domain.episodes import DecisionRow
from slackwater.console.domain.formatting import outcome, shortfall
from slackwater.console.domain.views import DecisionSummary
from slackwater.decisions.effects import Standing
from slackwater.decisions.reasons import ONLY_TOLD

NAMED = 3
"""Pods that a mark names."""


def marks_of(acted: Sequence[DecisionSummary]) -> list[ChartMark]:
    """Marks for the actions, oldest first."""
    return [
        ChartMark(
            at=decision.decided_at, css=css_of(decision), label=label_of(decision), href=f"/decisions/{decision.id}"
        )
        for decision in reversed(acted)
    ]


def css_of(decision: DecisionSummary) -> str:
    """The CSS classes: the decision's kind, and whether it was not carried out."""
    only_told = decision.reason in ONLY_TOLD or (decision.kind in GUARDING and not decision.actions)
    return f"{decision.kind} told" if only_told else str(decision.kind)


def css_of_row(row: DecisionRow) -> str:
    """The CSS classes of a row of a list: the kind of the row, and whether nothing of it was carried out."""
    standing = row.effect.standing
    return str(row.kind) if standing is Standing.CARRIED_OUT else f"{row.kind} told"


def label_of(decision: DecisionSummary) -> str:
    """The label in a few lines, as the browser shows it on hover."""
    lines = [
        f"{decision.decided_at:%H:%M:%S} UTC, {decision.kind}: {outcome(decision)}",
        str(decision.reason).replace("_", " ") + (f", rule {decision.rule}" if decision.rule else ""),
    ]
    if decision.actions:
        names = [action.pod_name for action in decision.actions]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(", ".join(names[:NAMED]) + more)
    if lacking := shortfall(decision):
        lines.append(lacking)
    if decision.relieved is not None:
        took = (
            "" if decision.seconds_to_actuation is None else f", written after {seconds(decision.seconds_to_actuation)}"
        )
        lines.append(("relieved" if decision.relieved else "not relieved") + took)
    return "\n".join([*lines, f"decision {decision.id}"])


@dataclass(frozen=True, slots=True)
class WaterlineMark:
    """A waterline on a chart, in its unit (thousandths of a core or of a GiB)."""

    name: str
    amount: int


_CPU: Mapping[str, bool] = {
    "node_cpu_usage_ratio": True,
    "batch_cpu_threshold": True,
    "node_cpu_usage": False,
    "batch_cpu_usage": False,
    "mid_cpu_usage": False,
}
_MEMORY: Mapping[str, bool] = {
    "node_memory_usage_ratio": True,
    "batch_memory_threshold": True,
    "node_memory_usage": False,
}
"""Metrics that are an amount of the resource; True: as a share of the node."""
GIB = 2**30


def cpu_lines(waterlines: Mapping[str, float], capacity_milli: int) -> tuple[WaterlineMark, ...]:
    return _lines(_CPU, waterlines, capacity_milli, 1.0)


def memory_lines(waterlines: Mapping[str, float], capacity_bytes: int) -> tuple[WaterlineMark, ...]:
    return _lines(_MEMORY, waterlines, capacity_bytes, 1000 / GIB)


def _lines(
    kinds: Mapping[str, bool], waterlines: Mapping[str, float], capacity: int, scale: float
) -> tuple[WaterlineMark, ...]:
    found: dict[int, list[str]] = {}
    for name, is_share in kinds.items():
        value = waterlines.get(name)
        if value is not None:
            found.setdefault(round(value * (capacity if is_share else 1) * scale), []).append(name)
    return tuple(WaterlineMark(_joined(names), amount) for amount, names in sorted(found.items(), reverse=True))


def _joined(names: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ").removesuffix(" ratio") for name in names)
