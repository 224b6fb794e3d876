"""Room for the predicted load of nodes below their load limits: what a reservation needs beside its requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slackwater.descheduling.node_classes import NodeLoad
from slackwater.descheduling.placement import PlacedPod, predicted_load
from slackwater.model.tiers import Tier

_UNLIMITED: Final = 2**62
_YIELDS: Final = frozenset({Tier.BATCH, Tier.FREE})
"""Their load counts for nothing where a pod of another tier needs the room: it is throttled."""


class LimitedTargets:
    """The room of each target, with what is reserved on it. Without limits every pod fits everywhere."""

    def __init__(self, targets: Sequence[NodeLoad]) -> None:
        self._names = sorted({name for target in targets for name in target.node.load_limits})
        self._room, self._room_beside_all = (
            np.array([_room(target, self._names, without) for target in targets], dtype=np.int64).reshape(
                len(targets), len(self._names)
            )
            for without in (_YIELDS, frozenset[Tier]())
        )

    def fits(self, pod: PlacedPod) -> NDArray[np.bool_] | np.bool_:
        """Returns which targets have room for the pod."""
        if not self._names:
            return np.True_
        room = self._room_beside_all if pod.tier in _YIELDS else self._room
        return np.asarray((room >= self._need(pod)).all(axis=1))

    def reserve(self, pod: PlacedPod, place: int) -> None:
        """Take the pod's load off the room of a target."""
        if not self._names:
            return
        need = self._need(pod)
        self._room_beside_all[place] -= need
        if pod.tier not in _YIELDS:
            self._room[place] -= need

    def _need(self, pod: PlacedPod) -> NDArray[np.int64]:
        load = predicted_load(pod)
        return np.array([load.get(name, 0) for name in self._names], dtype=np.int64)


def _room(target: NodeLoad, names: Sequence[str], without: Collection[Tier]) -> list[int]:
    """What the predicted load leaves of the limits of a node, without that of pods of some tiers."""
    limits, load = target.node.load_limits, dict(target.node.system_peak)
    for pod in target.pods if limits else ():
        if pod.tier not in without:
            for name, amount in predicted_load(pod).items():
                load[name] = load.get(name, 0) + amount
    return [limits[name] - load.get(name, 0) if name in limits else _UNLIMITED for name in names]
