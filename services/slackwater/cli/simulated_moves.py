"""Output of `slackwater simulate` for descheduler profiles: hotspots, moves and imbalance, by way of moving pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackwater.cli.output import Item, TableColumn, table

MOST_REASONS = 5


def lines(answer: Item) -> list[str]:
    """The text report."""
    cluster, results = answer["cluster"], answer["moved"]
    hot = " or ".join(f"{percent:g} % {name}" for name, percent in cluster["hot_above_percent"].items())
    heading = (
        f"{cluster['source']}: {cluster['pods']:,} pods on {cluster['nodes']:,} nodes, {cluster['hours']:,g} h; hot is "
        f"above {hot}"
    )
    rows = [{"what": said, "values": [text(result[name]) for result in results]} for name, said, text in FIGURES]
    columns = [TableColumn("ALL NODES", lambda row: str(row["what"]))]
    columns += [_column(place, result["name"]) for place, result in enumerate(results)]
    shown = [heading, *cluster["notes"], "", *table(rows, columns, wide=False, headers=True), ""]
    for result in results:
        if reasons := sorted(result["refusals"].items(), key=lambda each: -each[1])[:MOST_REASONS]:
            counted = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in reasons)
            shown.append(f"not proposed by {result['name']}: {counted}")
    return [*shown, *LEGEND]


def _column(place: int, name: str) -> TableColumn:
    return TableColumn(name, lambda row: str(row["values"][place]), right=True)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{value * 100:.2f}%"


FIGURES: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("hot_node_minutes", "hot node minutes", _count),
    ("hot_minutes", "minutes with any hot node", _count),
    ("overloaded_node_minutes", "node minutes beyond capacity", _count),
    ("imbalance", "imbalance (SD of CPU load)", _share),
    ("moves", "moves", _count),
    ("back", "  back to where the pod was", _count),
    ("looping", "workloads in a loop", _count),
)
LEGEND: Sequence[str] = (
    "A move takes effect with the next sample, costs nothing and always succeeds. Thresholds: pods of hot nodes are",
    "evicted until they are under, and a scheduler puts them where least is requested; nothing is reserved or rests.",
)
