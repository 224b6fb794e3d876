"""Room for the predicted load of nodes below their load limits: what a reservation needs beside its requests."""

from __future__ import annotations

from collections.abc import Sequence
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
    """The room of each target, with what is reserved on it. Without limits every pod fits everywhere. Arrays have a row
    per resource and a column per target."""

    def __init__(self, targets: Sequence[NodeLoad]) -> None:
        self._names = sorted({name for target in targets for name in target.node.load_limits})
        rooms = np.array([_rooms(target, self._names) for target in targets], dtype=np.int64)
        columns = np.ascontiguousarray(rooms.reshape(len(targets), 2, len(self._names)).transpose(1, 2, 0))
        self._room, self._room_beside_all = columns

    def fits(self, pod: PlacedPod) -> NDArray[np.bool_] | np.bool_:
        """Returns which targets have room for the pod."""
        room = self._room_beside_all if pod.tier in _YIELDS else self._room
        load, found = predicted_load(pod), np.True_
        for name, left in zip(self._names, room, strict=True):
            found = found & (left >= load.get(name, 0))
        return found

    def reserve(self, pod: PlacedPod, place: int) -> None:
        """Take the pod's load off the room of a target."""
        load = predicted_load(pod)
        for row, name in enumerate(self._names):
            self._room_beside_all[row, place] -= load.get(name, 0)
            if pod.tier not in _YIELDS:
                self._room[row, place] -= load.get(name, 0)


def _rooms(target: NodeLoad, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """What the predicted load leaves of the limits of a node: without that of pods that yield, and with it."""
    limits, load, yielding = target.node.load_limits, dict(target.node.system_peak), dict[str, int]()
    for pod in target.pods if limits else ():
        into = yielding if pod.tier in _YIELDS else load
        for name, amount in predicted_load(pod).items():
            into[name] = into.get(name, 0) + amount
    room = [limits[name] - load.get(name, 0) if name in limits else _UNLIMITED for name in names]
    return room, [left - yielding.get(name, 0) for left, name in zip(room, names, strict=True)]
