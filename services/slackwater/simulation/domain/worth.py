"""What a lendable amount is worth: cores, GiB, whole nodes, and money where a price is given. Pure."""

from __future__ import annotations

from dataclasses import dataclass

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
class Worth:
    """Means over the evaluated time. `cores` and `gib` are None for a resource that was not assessed, `per_month` if
    no price fits. `nodes`: of the mean node of this fleet, as many as both resources together fill; `limited_by` is the
    resource that fills fewest (cpu or memory)."""

    cores: float | None
    gib: float | None
    nodes: float
    limited_by: str
    per_month: float | None


def worth_of(cores: float | None, gib: float | None, node_cores: float, node_gib: float, prices: Prices) -> Worth:
    """Returns the worth of lendable amounts; `node_cores` and `node_gib` are the size of the mean node.

    nodes = min(cores / node_cores, gib / node_gib) over the assessed resources, because a job needs both;
    money = nodes x price of a node-month, or (cores x core-hour + GiB x GiB-hour) x 730.
    """
    sized = ((cores, node_cores, "cpu"), (gib, node_gib, "memory"))
    filled = [(amount / size, name) for amount, size, name in sized if amount is not None and size > 0]
    nodes, limited_by = min(filled, default=(0.0, ""))
    if prices.node_month is not None:
        return Worth(cores, gib, nodes, limited_by, nodes * prices.node_month)
    priced = [
        amount * price * MONTH_HOURS
        for amount, price in ((cores, prices.core_hour), (gib, prices.gib_hour))
        if amount is not None and price is not None
    ]
    return Worth(cores, gib, nodes, limited_by, sum(priced) if priced else None)
