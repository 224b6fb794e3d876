"""Rows of `slackwater top`: columns, the summary line, and what fits a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from slackwater.cli.item_fields import age_at, cpu_at, memory_at, part_of, ratio_at, text_at, unread_mark
from slackwater.cli.output import UNKNOWN, Item, TableColumn, cpu, memory, table
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import LentUse, lent_use
from slackwater.offers.no_offer import NoOffer, no_offer_line, no_offer_reason

LEFT_OUT = "… {count} more rows"


def _share(part: tuple[str, ...], of: tuple[str, ...], unit: str) -> Callable[[Item], str]:
    """A cell with the utilisation: one amount as a percentage of another."""

    def cell(item: Item) -> str:
        used, whole = part_of(item, *part, unit), part_of(item, *of, unit)
        return UNKNOWN if used is None or not whole else f"{used / whole:.0%}"

    return cell


def _of_request(unit: str) -> Callable[[Item], str]:
    return _share(("usage",), ("request",), unit)


def _of_node(unit: str) -> Callable[[Item], str]:
    return _share(("usage", "usage"), ("facts", "capacity"), unit)


def _pods(item: Item) -> str:
    return str(item["pods"])


_USED = (
    TableColumn("CPU", cpu_at("usage"), right=True),
    TableColumn("CPU%", _of_request("cpu_milli"), right=True),
    TableColumn("MEMORY", memory_at("usage"), right=True),
    TableColumn("MEM%", _of_request("memory_bytes"), right=True),
    TableColumn("PRESSURE", ratio_at("cpu_pressure"), right=True),
)
COLUMNS: Mapping[str, tuple[TableColumn, ...]] = {
    "nodes": (
        TableColumn("NAME", text_at("name")),
        TableColumn("CPU", cpu_at("usage", "usage"), right=True),
        TableColumn("CPU%", _of_node("cpu_milli"), right=True),
        TableColumn("MEMORY", memory_at("usage", "usage"), right=True),
        TableColumn("MEM%", _of_node("memory_bytes"), right=True),
        TableColumn("PRESSURE", ratio_at("usage", "prod_pressure"), right=True),
        TableColumn("PROD", cpu_at("usage", "tiers", "prod"), right=True),
        TableColumn("BATCH", cpu_at("usage", "tiers", "batch"), right=True),
        TableColumn("OFFERED", cpu_at("offer", "batch"), right=True),
        TableColumn("MEM-OFFERED", memory_at("offer", "batch"), right=True),
        TableColumn("PODS", text_at("usage", "pods"), right=True),
        TableColumn("THROTTLED", text_at("usage", "throttled_pods"), right=True),
        TableColumn("LIVENESS", text_at("liveness")),
        TableColumn("REPORTED", age_at("usage", "sampled_at"), right=True),
    ),
    "workloads": (
        TableColumn("NAMESPACE", text_at("namespace")),
        TableColumn("NAME", text_at("name")),
        TableColumn("TIER", text_at("tier")),
        TableColumn("PODS", _pods, right=True),
        *_USED,
        TableColumn("THROTTLED", text_at("throttled_pods"), right=True),
        TableColumn("NODES", text_at("nodes"), right=True),
    ),
    "pods": (
        TableColumn("NODE", text_at("node")),
        TableColumn("NAME", text_at("name")),
        TableColumn("TIER", text_at("tier")),
        *_USED,
        TableColumn(
            "LIMIT",
            lambda item: (
                ("none" if item["cpu_limit_milli"] is None else cpu(item["cpu_limit_milli"])) + unread_mark(item)
            ),
            right=True,
        ),
        TableColumn("WORKLOAD", text_at("workload")),
    ),
}
"""Of nodes, percentages are of the capacity; of workloads and pods, of the request."""


def summary(nodes: Sequence[Item], now: datetime) -> str:
    """One line over the nodes that report: their number, utilisation, what is offered, and the throttled pods."""
    fresh = [node for node in nodes if node.get("liveness") == "fresh" and node.get("usage") and node.get("facts")]
    used, size = (_sum(fresh, *path) for path in (("usage", "usage"), ("facts", "capacity")))
    offered = _sum(fresh, "offer", "batch")
    use = sum((_lent_use(node) for node in fresh), LentUse())
    throttled = sum(node["usage"]["throttled_pods"] for node in fresh)
    return (
        f"{now:%H:%M:%SZ}  nodes {len(fresh)} of {len(nodes)} report  "
        f"CPU {cpu(used[0])} of {cpu(size[0])}{_percent(used[0], size[0])}  "
        f"memory {memory(used[1])} of {memory(size[1])}{_percent(used[1], size[1])}  "
        f"offered {cpu(offered[0])} and {memory(offered[1])}  "
        f"borrowed {cpu(use.borrowed.cpu_milli)}{_beyond(use)}  throttled pods {throttled}"
        + (f"  {why}" if (why := no_offer_line(map(_no_offer, nodes))) else "")
    )


def _lent_use(node: Item) -> LentUse:
    offer = part_of(node, "offer", "batch")
    tiers = {name: Resources(**part) for name, part in (part_of(node, "usage", "tiers") or {}).items()}
    return lent_use(Resources(**offer) if offer else None, tiers)


def _beyond(use: LentUse) -> str:
    return f" ({cpu(use.beyond.cpu_milli)} beyond offers)" if use.beyond.cpu_milli else ""


def _no_offer(node: Item) -> NoOffer | None:
    batch = part_of(node, "offer", "batch")
    return no_offer_reason(
        fresh=node.get("liveness") == "fresh" and bool(node.get("usage")),
        batch_milli=batch["cpu_milli"] if batch else None,
        degraded=part_of(node, "offer", "degraded"),
    )


def _sum(nodes: Sequence[Item], *path: str) -> tuple[int, int]:
    parts = [part_of(node, *path) for node in nodes]
    return sum(part["cpu_milli"] for part in parts if part), sum(part["memory_bytes"] for part in parts if part)


def _percent(part: int, whole: int) -> str:
    return f" ({part / whole:.0%})" if whole else ""


def screen(head: str, items: Sequence[Item], columns: Sequence[TableColumn], width: int, height: int) -> list[str]:
    """The lines of a screen: the head wrapped, then the columns from the left and the rows from the top that fit."""
    lines = wrapped(head, width)
    shown = fitting(items, columns, width)
    rows = table(items, shown, wide=True, headers=True)
    room = max(2, height - len(lines) - 1)
    if len(rows) > room:
        rows = [*rows[: room - 1], LEFT_OUT.format(count=len(rows) - room + 1)]
    return [*lines, "", *rows][:height]


def wrapped(head: str, width: int) -> list[str]:
    """The head broken between its parts, which two blanks separate."""
    lines = [""]
    for part in head.split("  "):
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= width else [*lines, part]
    return [line[:width] for line in lines if line]


def fitting(items: Sequence[Item], columns: Sequence[TableColumn], width: int) -> list[TableColumn]:
    """The columns from the left that fit, at least one."""
    shown = list(columns)
    while len(shown) > 1 and max(map(len, table(items, shown, wide=True, headers=True))) > width:
        shown.pop()
    return shown
