"""What a lendable amount is worth: cores, GiB, whole nodes, and money where a price is given. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slackwater.model.errors import InvalidInput

MONTH_HOURS = 730
"""Hours of a month, as clouds bill: 8,760 / 12."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a core-hour and a GiB-hour cost, or a node-month; in any currency. None: not given."""

    core_hour: float | None = None
    gib_hour: float | None = None
    node_month: float | None = None

    def __post_init__(self) -> None:
        given = {"core-hour": self.core_hour, "gib-hour": self.gib_hour, "node-month": self.node_month}
        for name, price in given.items():
            if price is not None and not 0 < price < 1e9:
                raise InvalidInput(f"--price-{name}: {price:g} is not allowed; above 0", field=f"price-{name}")
        if self.node_month is not None and (self.core_hour, self.gib_hour) != (None, None):
            raise InvalidInput(
                "--price-node-month: excludes --price-core-hour and --price-gib-hour; give one or the other",
                field="price-node-month",
            )


@dataclass(frozen=True, slots=True)
class MemoryRatio:
    """GiB of memory that a job takes with each core, and where that is from: option, requests or nodes."""

    gib_per_core: float
    source: Literal["option", "requests", "nodes"]


@dataclass(frozen=True, slots=True)
class Worth:
    """Means over the evaluated time. `cores` and `gib` could be lent; they are None for a resource that was not
    assessed, `per_month` if no price fits. `usable_cores` and `usable_gib` are the part of them that jobs of the ratio
    can take, and `limited_by` is the resource that ends first (cpu or memory). Ratio and limit are None and empty where
    one resource alone was assessed.
    `nodes`: of the mean node of this fleet, as many as run the same jobs."""

    cores: float | None
    gib: float | None
    usable_cores: float | None
    usable_gib: float | None
    ratio: MemoryRatio | None
    nodes: float
    limited_by: str
    per_month: float | None


def ratio_of(given: float | None, requested: tuple[float, float], node: tuple[float, float]) -> MemoryRatio | None:
    """Returns the ratio that is assumed for jobs: the given one, else that of the requests, else that of the mean node.
    Both pairs are cores and GiB. None: no pair has both.
    """
    if given is not None:
        return MemoryRatio(given, "option")
    if min(requested) > 0:
        return MemoryRatio(requested[1] / requested[0], "requests")
    return MemoryRatio(node[1] / node[0], "nodes") if min(node) > 0 else None


def worth_of(
    cores: float | None, gib: float | None, node: tuple[float, float], ratio: MemoryRatio | None, prices: Prices
) -> Worth:
    """Returns the worth of lendable amounts; `node` is cores and GiB of the mean node.

    usable cores = min(cores, GiB / ratio), usable GiB = usable cores x ratio, because a job needs both;
    nodes = usable cores / min(node's cores, node's GiB / ratio);
    money = nodes x price of a node-month, or (usable cores x core-hour + usable GiB x GiB-hour) x 730.
    """
    usable_cores, usable_gib, limited_by = cores, gib, ""
    if cores is not None and gib is not None and ratio is not None:
        usable_cores = min(cores, gib / ratio.gib_per_core)
        usable_gib = min(gib, usable_cores * ratio.gib_per_core)
        limited_by = "cpu" if cores <= gib / ratio.gib_per_core else "memory"
    filled = (
        amount / size for amount, size in zip((usable_cores, usable_gib), node, strict=True) if amount and size > 0
    )
    nodes = max(filled, default=0.0)
    ratio = ratio if limited_by else None
    if prices.node_month is not None:
        return Worth(cores, gib, usable_cores, usable_gib, ratio, nodes, limited_by, nodes * prices.node_month)
    priced = [
        amount * price * MONTH_HOURS
        for amount, price in ((usable_cores, prices.core_hour), (usable_gib, prices.gib_hour))
        if amount is not None and price is not None
    ]
    return Worth(cores, gib, usable_cores, usable_gib, ratio, nodes, limited_by, sum(priced) if priced else None)
