"""borg-default: every pod needs its reservation less a fixed ratio. This model learns nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.fleet import machine_members
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.tables import State


class BorgDefault:
    """sum of limits / `overcommit`; the field's value is 1.1."""

    name = "borg-default"
    version = "1"

    def __init__(self, overcommit: float = 1.1) -> None:
        self.overcommit = overcommit

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        """No-op: this model learns nothing."""

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        return fleet.answer({"limits": fleet.total / self.overcommit}, np.zeros(len(members.limit), dtype=bool))

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """No-op: this model has no state."""

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        """No-op: this model has no state."""
