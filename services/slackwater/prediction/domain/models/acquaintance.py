"""How long something has been watched: what decides whether a model is believed, whatever the pod's age says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.prediction.domain.models.port import Rows
from slackwater.prediction.domain.models.tables import Column, State, Table

_NEVER = -(2**62)


class Acquaintance:
    """Counts slots of `slot_seconds` with a sample, so that it does not matter how often windows come.

    A sample in a slot that is not later than the last one counted adds nothing: no duplicate makes anything warm.
    """

    def __init__(self, slot_seconds: float = 300.0) -> None:
        self.slot_seconds = slot_seconds
        self.table = Table({"slots": Column(np.int32), "last": Column(np.int64, empty=_NEVER)})

    def fold(self, at_seconds: float, rows: Rows) -> None:
        self.table.reach(rows)
        slot = math.ceil(at_seconds / self.slot_seconds) - 1
        later = rows[self.table["last"][rows] < slot]
        self.table["slots"][later] = self.table["slots"][later] + 1  # a number given twice still counts once
        self.table["last"][later] = slot

    def warm(self, rows: Rows, for_seconds: float) -> NDArray[np.bool_]:
        """(n,) who has been watched for so long, or longer, and at all."""
        self.table.see(rows)
        slots = self.table["slots"][rows]
        return np.asarray((slots > 0) & (slots * self.slot_seconds >= for_seconds))

    def forget(self, rows: Rows) -> None:
        self.table.forget(rows)

    def state(self) -> State:
        return self.table.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.table.restore(state)
