"""Tracks how long a series has been observed. A model is used only for warm series, whatever the age of the pod."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.port import Rows
from slackwater.peaks.tables import SeriesColumn, State, Table

_NEVER = -(2**62)


class Warmup:
    """Counts slots of `slot_seconds` with a sample, so that the frequency of windows has no effect.

    A sample in a slot not later than the last counted one is ignored, so duplicates do not warm a series.
    """

    def __init__(self, slot_seconds: float = 300.0) -> None:
        self.slot_seconds = slot_seconds
        self.table = Table({"slots": SeriesColumn(np.int32), "last": SeriesColumn(np.int64, empty=_NEVER)})

    def fold(self, at_seconds: float, rows: Rows) -> None:
        self.table.reach(rows)
        slot = math.ceil(at_seconds / self.slot_seconds) - 1
        later = rows[self.table["last"][rows] < slot]
        self.table["slots"][later] = self.table["slots"][later] + 1  # a row id that occurs twice counts once
        self.table["last"][later] = slot

    def warm(self, rows: Rows, for_seconds: float) -> NDArray[np.bool_]:
        """Returns (n,) whether each series has a sample and has been observed for at least `for_seconds`."""
        self.table.see(rows)
        slots = self.table["slots"][rows]
        return np.asarray((slots > 0) & (slots * self.slot_seconds >= for_seconds))

    def forget(self, rows: Rows) -> None:
        self.table.forget(rows)

    def state(self) -> State:
        return self.table.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.table.restore(state)
