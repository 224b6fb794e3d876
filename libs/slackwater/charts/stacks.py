"""Stacked amounts: the layers of a water level, at one time and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LAYERS = ("system", "prod", "mid", "batch", "free")
"""From the bottom up: the fixed tiers are lowest, the tier that yields first is on top."""

BORROWERS = ("batch", "free")
"""Layers that use the offer."""


@dataclass(frozen=True, slots=True)
class StackLayer:
    """One layer of a stack: from `low` to `high`, in milli-cores."""

    name: str
    low: int
    high: int

    @property
    def amount(self) -> int:
        return self.high - self.low


def water_level(used: Mapping[str, int], offered: int | None, capacity: int, beyond: int = 0) -> tuple[StackLayer, ...]:
    """Usage by layer, then the unused offer, then the margin up to the capacity.

    Layers do not overlap and together reach from 0 to the larger of capacity and usage. Negative usage counts as zero.
    `beyond` is the part of the borrowers' usage that runs on no offer: in a sum over nodes it uses none of the offers.
    """
    layers: list[StackLayer] = []
    top = 0
    for name in LAYERS:
        amount = max(0, used.get(name, 0))
        layers.append(StackLayer(name, top, top + amount))
        top += amount
    borrowed = sum(max(0, used.get(name, 0)) for name in BORROWERS)
    unused = max(0, min((offered or 0) + beyond - borrowed, capacity - top))
    layers.append(StackLayer("offered", top, top + unused))
    top += unused
    layers.append(StackLayer("margin", top, max(top, capacity)))
    return tuple(layers)


def stacked(series: Sequence[Mapping[str, int]], names: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Per name, (low, high) at each position; the order of `names` is from the bottom up."""
    bottoms = [0] * len(series)
    bands: list[list[tuple[int, int]]] = []
    for name in names:
        tops = [low + max(0, row.get(name, 0)) for low, row in zip(bottoms, series, strict=True)]
        bands.append(list(zip(bottoms, tops, strict=True)))
        bottoms = tops
    return bands
