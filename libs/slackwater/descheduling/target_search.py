"""Finds a target for a pod among thousands of nodes, and reserves its headroom at once.

A target has room below its high thresholds for the pod's load and all that is reserved on it, room below its load
limits, free requests, and no hard rule keeps the pod off it (`placement_index`). The coolest one is chosen. Arrays have
a row per resource and a column per target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.descheduling.load_limits import LimitedTargets
from slackwater.descheduling.node_classes import LOW_NODES, PROD_LOW_NODES, NodeClass, NodeLoad
from slackwater.descheduling.placement import PODS, Amounts, PlacedPod, free_for_requests
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.model.tiers import Tier

_UNLIMITED = 2**62


class TargetSearch:
    """The targets of one pool, with what is reserved on them."""

    def __init__(
        self,
        targets: Sequence[NodeLoad],
        classes: Mapping[str, NodeClass],
        weights: Mapping[str, float],
        *,
        node_fit: bool,
        margin: float,
        rules: PlacementIndex | None = None,
    ) -> None:
        """`rules`: where hard rules allow pods; None: everywhere. `node_fit`: requests are checked. `margin`: by how
        much, in 0..1 of the weighted load, the target must stay below the source; 0: not at all."""
        self._rules = rules
        self._columns = None if rules is None else rules.columns([target.node.name for target in targets])
        self._targets = targets
        self._index = {target.node.name: place for place, target in enumerate(targets)}
        self._for_any = np.array([classes[target.node.name] in LOW_NODES for target in targets], dtype=np.bool_)
        self._for_prod = np.array([classes[target.node.name] in PROD_LOW_NODES for target in targets], dtype=np.bool_)
        self._node_fit = node_fit
        self._margin = margin
        self._limits = sorted({name for target in targets for name in target.high})
        self._requested = sorted({name for target in targets for name in target.node.allocatable} | {PODS})
        self._room = _columns(targets, self._limits, lambda target: _room(target.usage, target.high, self._limits))
        self._prod_room = _columns(
            targets, self._limits, lambda target: _room(target.prod, target.prod_high, self._limits)
        )
        self._free = _columns(targets, self._requested, self._free_of) if node_fit else self._room
        self._limited = LimitedTargets(targets)
        total = sum(weights.get(name, 1.0) for name in self._limits) or 1.0
        shares = np.array([[weights.get(name, 1.0) / total] for name in self._limits]).reshape(-1, 1)
        capacity = _columns(targets, self._limits, lambda target: _amounts(target.node.allocatable, self._limits))
        self._weight_of = np.where(capacity > 0, shares / np.maximum(capacity, 1), 0.0)
        used = _columns(targets, self._limits, lambda target: _amounts(target.usage, self._limits))
        self._score = (used * self._weight_of).sum(axis=0)

    def reserve(
        self,
        pod: PlacedPod,
        load: Amounts,
        source_score: float,
        *,
        prod: bool,
        without: str = "",
        among: Collection[str] | None = None,
        accepts: Callable[[str], bool] | None = None,
    ) -> str | None:
        """Returns the coolest target that holds the pod, and reserves its load there; None where none does.

        `prod`: the load of prod is balanced, so that its low nodes are the targets. `source_score`: weighted load of
        the node that the pod leaves, 0..1, as `score_of` returns it. `without` names a target that is left out,
        `among` those that are not (None: all). `accepts` is asked for the one that would be chosen.
        """
        if not self._targets:
            return None
        need = [1 if name == PODS else load.get(name, 0) for name in self._limits]
        fits = (self._for_prod if prod else self._for_any) & _at_least(self._room, need) & self._limited.fits(pod)
        if pod.tier is Tier.PROD:
            fits &= _at_least(self._prod_room, need)
        asked = self._asked(pod)
        fits &= _at_least(self._free, asked) if self._node_fit else True
        if self._node_fit and any(pod.requests[name] > 0 for name in pod.requests.keys() - set(self._requested)):
            return None
        if self._rules is not None:
            fits &= self._rules.allowed(pod)[self._columns]
        after = self._score + np.array(need, dtype=np.float64) @ self._weight_of
        if self._margin > 0:
            fits &= after + self._margin <= source_score
        self._leave_out(fits, without, among)
        place = self._coolest(fits, after, accepts)
        if place is None:
            return None
        if self._rules is not None:
            self._rules.place(pod, self._targets[place].node.name)
        self._room[:, place] -= need
        if pod.tier is Tier.PROD:
            self._prod_room[:, place] -= need
        self._limited.reserve(pod, place)
        if self._node_fit:
            self._free[:, place] -= asked
        self._score[place] = after[place]
        return self._targets[place].node.name

    def _asked(self, pod: PlacedPod) -> list[int]:
        return [1 if name == PODS else pod.requests.get(name, 0) for name in self._requested]

    def _coolest(
        self, fits: NDArray[np.bool_], after: NDArray[np.float64], accepts: Callable[[str], bool] | None
    ) -> int | None:
        while fits.any():
            places = np.flatnonzero(fits)
            place = int(places[np.argmin(after[places])])
            if accepts is None or accepts(self._targets[place].node.name):
                return place
            fits[place] = False
        return None

    def _leave_out(self, fits: NDArray[np.bool_], without: str, among: Collection[str] | None) -> None:
        if without in self._index:
            fits[self._index[without]] = False
        if among is not None:
            chosen = np.zeros_like(fits)
            chosen[[self._index[name] for name in among if name in self._index]] = True
            fits &= chosen

    def _free_of(self, target: NodeLoad) -> list[int]:
        return _amounts(free_for_requests(target.node, target.pods), self._requested)


def score_of(load: NodeLoad, usage: Amounts, weights: Mapping[str, float]) -> float:
    """Returns the weighted load of a node in 0..1 (above 1 where it is over-committed), over its thresholds."""
    names = list(load.high)
    total = sum(weights.get(name, 1.0) for name in names) or 1.0
    return sum(
        weights.get(name, 1.0) / total * usage.get(name, 0) / load.node.allocatable[name]
        for name in names
        if load.node.allocatable[name] > 0
    )


def _room(usage: Amounts, high: Amounts, names: Sequence[str]) -> list[int]:
    return [high[name] - usage.get(name, 0) if name in high else _UNLIMITED for name in names]


def _amounts(amounts: Amounts, names: Sequence[str]) -> list[int]:
    return [amounts.get(name, 0) for name in names]


def _columns(
    targets: Sequence[NodeLoad], names: Sequence[str], row_of: Callable[[NodeLoad], list[int]]
) -> NDArray[np.int64]:
    """Returns an array with a row per resource, so that a comparison runs over neighbouring numbers."""
    rows = np.array([row_of(target) for target in targets], dtype=np.int64).reshape(len(targets), len(names))
    return np.ascontiguousarray(rows.T)


def _at_least(amounts: NDArray[np.int64], need: Sequence[int]) -> NDArray[np.bool_]:
    """Returns which targets have `need` of each resource."""
    fits = np.ones(amounts.shape[1], dtype=np.bool_)
    for row, amount in zip(amounts, need, strict=True):
        fits &= row >= amount
    return fits
