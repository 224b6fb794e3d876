"""borg-default: everyone needs what it has reserved, but for a fixed share. It learns nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.prediction.domain.models.fleet import fleet_of
from slackwater.prediction.domain.models.port import Floats, Members, Peaks, Rows
from slackwater.prediction.domain.models.tables import State


class BorgDefault:
    """sum of limits / `overcommit`; 1.1 is the field's value."""

    name = "borg-default"
    version = "1"

    def __init__(self, overcommit: float = 1.1) -> None:
        self.overcommit = overcommit

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        """Nothing is learned."""

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = fleet_of(members)
        return fleet.answer({"limits": fleet.total / self.overcommit}, np.zeros(len(members.limit), dtype=bool))

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """There is nothing to take."""

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        """There is nothing to forget."""
