"""resource-central: the sum over pods of a high percentile of each pod's last hours.

Stores the largest ratio of its limit that each pod used in each time slot, rounded up to 1/65,534. A percentile
(nearest rank, rounded up) is exact except for that: at most 0.0016 % of the limit too high, never too low.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.fleet import machine_members, measured
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.tables import SeriesColumn, SeriesRing, State, named, part_of
from slackwater.peaks.warmup import Warmup

STEPS = 65_534
"""Steps of a limit; a stored 0 means no sample, 1 means no usage."""
_AT_ONCE = 16_384


@record(frozen=True, slots=True)
class ResourceCentralOptions:
    """`percentile` (0..1) of the last `slots` slots; warm after `warm_seconds` of samples. 2 bytes per slot and pod."""

    percentile: float = 0.99
    slots: int = 120
    slot_seconds: float = 300.0
    warm_seconds: float = 7200.0


class ResourceCentral:
    """sum of (percentile of usage / limit) x limit; a pod that is not warm counts with its limit."""

    name = "resource-central"
    version = "1"

    def __init__(self, options: ResourceCentralOptions) -> None:
        self.options = options
        self.pods = Warmup()
        self.ring = SeriesRing({"share": SeriesColumn(np.uint16, blocked=True)}, options.slots, options.slot_seconds)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        fleet, used = measured(members, usage)
        series = fleet.members.series
        self.pods.fold(at_seconds, series)
        self.ring.reach(series)
        slot = self.ring.block_of(at_seconds)
        if self.ring.turn(slot):
            share = np.divide(used, fleet.limit, out=np.zeros_like(used), where=fleet.limit > 0)
            steps = (np.ceil(share * STEPS) + 1).astype(np.uint16)
            np.maximum.at(self.ring["share"][self.ring.line(slot)], series, steps)

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        known, share = self.percentiles(members.series)
        cold = ~known | ~self.pods.warm(members.series, self.options.warm_seconds)
        terms = {
            "pods_percentile": fleet.sums(np.where(cold, 0.0, share * fleet.limit)),
            "cold_start_limits": fleet.sums(np.where(cold, fleet.limit, 0.0)),
        }
        return fleet.answer(terms, cold)

    def percentiles(self, series: Rows) -> tuple[NDArray[np.bool_], Floats]:
        """Returns whether there is a sample in the window, and the percentile as a ratio (0..1) of the limit."""
        self.ring.see(series)
        steps = np.zeros(len(series), dtype=np.uint16)
        for first in range(0, len(series), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            steps[some] = self._nearest_rank(self.ring["share"][:, series[some]].T)
        return steps > 0, np.maximum(steps.astype(np.float64) - 1.0, 0.0) / STEPS

    def _nearest_rank(self, slots: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """(n, slots) -> (n,); empty slots are 0 and sort to the front."""
        ordered = np.sort(slots, axis=1)
        seen = np.count_nonzero(ordered, axis=1)
        rank = np.maximum(np.ceil(self.options.percentile * seen - 1e-9), 1.0).astype(np.intp)
        place = np.minimum(self.options.slots - seen + rank - 1, self.options.slots - 1)
        picked: NDArray[np.uint16] = np.take_along_axis(ordered, place[:, None], axis=1)[:, 0]
        return picked

    def merge(self, other: ResourceCentral) -> None:
        """Adds the samples of another instance for the same pods, but not their observation times."""
        for mine, theirs in self.ring.meet(other.ring):
            line = self.ring["share"][mine, : other.ring.used]
            np.maximum(line, other.ring["share"][theirs, : other.ring.used], out=line)

    def state(self) -> State:
        return {**named("pods", self.pods.state()), **named("slots", self.ring.state())}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.pods.restore(part_of(state, "pods"))
        self.ring.restore(part_of(state, "slots"))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self.pods.forget(series)
        self.ring.forget(series)
