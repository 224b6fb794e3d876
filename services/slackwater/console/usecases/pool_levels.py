"""The water level of each pool, drawn, and of all pools together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from slackwater.charts.fleet_chart import Wording
from slackwater.charts.pool_chart import PoolLevel, pool_chart, pool_frame, pool_layers
from slackwater.charts.stacks import StackLayer
from slackwater.console.domain.pools import PoolRow
from slackwater.console.usecases.pictures import Picture
from slackwater.model.quantities import Resources

WIDE, NARROW = 1120.0, 360.0
"""Approximate pixels of a separate card."""
DRAWN = 12
"""Maximum number of pools drawn; those that need attention first."""


@dataclass(frozen=True, slots=True)
class PoolLevels:
    """`picture` is None while no pool reports; `layers` and `capacity` cover all pools; `drawn` of `known`."""

    picture: Picture | None
    layers: tuple[StackLayer, ...]
    capacity: int
    drawn: int
    known: int


def pool_levels(rows: Sequence[PoolRow], resource: str, wording: Wording) -> PoolLevels:
    """The levels of the pools that report; `rows` list those that need attention first."""
    reporting = [row for row in rows if row.fresh]
    shown = sorted(reporting[:DRAWN], key=lambda row: row.pool)
    levels = [_level(row, resource, wording) for row in shown]
    word = "CPU" if resource == "cpu" else "Memory"

    def say(value: int) -> str:
        return f"{wording.say(value)} {wording.unit}"

    def draw(width: float) -> str:
        label = f"{word} of each pool: what is held, used, expected and offered"
        return pool_chart(pool_frame(len(levels), width), levels, say, label)

    return PoolLevels(
        picture=Picture(draw(WIDE), draw(NARROW)) if levels else None,
        layers=_together([_layers(row, resource) for row in reporting]),
        capacity=sum(_in(row.capacity, resource) for row in reporting),
        drawn=len(shown),
        known=len(rows),
    )


def _level(row: PoolRow, resource: str, wording: Wording) -> PoolLevel:
    offered = _in(row.batch, resource) + _in(row.mid, resource)
    capacity = _in(row.capacity, resource)
    silent = f", {row.nodes - row.fresh} silent" if row.nodes > row.fresh else ""
    degraded = f", {row.degraded} degraded" if row.degraded else ""
    layers = _layers(row, resource)
    over = f", {wording.say(_rounded(layers[-1].amount, resource))} over" if layers[-1].amount else ""
    share = f"{wording.say(_rounded(offered, resource))} of {wording.say(capacity)}"
    return PoolLevel(
        pool=row.pool,
        href="/nodes?" + urlencode({"pool": row.pool}),
        capacity=capacity,
        layers=layers,
        said=f"{share} {wording.unit} offered{over}{degraded}{silent}",
        alert=row.above > 0 or row.degraded > 0 or bool(over),
    )


def _layers(row: PoolRow, resource: str) -> tuple[StackLayer, ...]:
    return pool_layers(
        capacity=_in(row.capacity, resource),
        reserve=_in(row.reserve, resource),
        prod=_in(row.prod, resource),
        expected=_in(row.expected, resource),
        mid=max(_in(row.mid, resource), _in(row.mid_used, resource)),
        borrowed=_in(row.borrowed + row.beyond, resource),
        batch=_in(row.batch + row.beyond, resource),
    )


def _rounded(amount: int, resource: str) -> int:
    """CPU to a tenth of a core, because the text shares its line with the pool's name."""
    return round(amount, -2) if resource == "cpu" else amount


def _together(stacks: Sequence[tuple[StackLayer, ...]]) -> tuple[StackLayer, ...]:
    """The sum of all stacks, layer by layer."""
    found, top = [], 0
    for layers in zip(*stacks, strict=True):
        amount = sum(layer.amount for layer in layers)
        found.append(StackLayer(layers[0].name, top, top + amount))
        top += amount
    return tuple(found)


def _in(amount: Resources, resource: str) -> int:
    return amount.cpu_milli if resource == "cpu" else amount.memory_bytes
