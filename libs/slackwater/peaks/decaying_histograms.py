"""histogram: percentiles of decaying histograms with a margin, of each pod and of the machine's pods combined.

    pod    = min(limit, percentile x (1 + margin)), or its limit while it is not known
    peak   = the larger of the sum over pods and of (percentile of all of them together) x (1 + margin)

Follows the field's node agent with four corrections. A series is cold by its observed samples, not by its age. The
model is not trained with zeros for missing samples. A pod never counts with more than its limit. The combined series is
used only once it is warm itself. Percentiles are ends of buckets: never too low, up to 5 % and the first bucket too
high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.buckets import Buckets
from slackwater.peaks.fleet import machine_members, measured
from slackwater.peaks.histogram import EPSILON, HistogramMatrix
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.tables import State, named, part_of, unusable
from slackwater.peaks.warmup import Warmup


@record(frozen=True, slots=True)
class DecayingOptions:
    """`percentile` 0..1; `margin` 0.1 = 10 %; the weight of a sample halves after `half_life_seconds`.

    `by_usage`: a sample is weighted by its value, at least `least_weight`. A percentile is then the level below which
    that ratio of the usage occurs, not of the time. Buckets below `epsilon` count as empty.
    """

    percentile: float = 0.95
    margin: float = 0.10
    half_life_seconds: float = 43_200.0
    warm_seconds: float = 3600.0
    by_usage: bool = False
    least_weight: float = 1e-5
    epsilon: float = EPSILON


class Known:
    """Histograms of series by row id, and how long each has been observed."""

    def __init__(self, buckets: Buckets, options: DecayingOptions) -> None:
        self.options = options
        self.matrix = self._empty(buckets)
        self.watched = Warmup()

    def fold(self, at_seconds: float, rows: Rows, values: Floats) -> None:
        self.watched.fold(at_seconds, rows)
        self.matrix.ensure_rows(self.watched.table.used)
        weights = np.maximum(values, self.options.least_weight) if self.options.by_usage else 1.0
        self.matrix.add(rows, values, np.full(len(rows), at_seconds), weights)

    def _empty(self, buckets: Buckets) -> HistogramMatrix:
        return HistogramMatrix(buckets, self.options.half_life_seconds, self.options.epsilon)

    def read(self, rows: Rows) -> tuple[NDArray[np.bool_], Floats]:
        """Returns which series are warm, and the percentile of each; 0 for the others."""
        warm = self.watched.warm(rows, self.options.warm_seconds)
        percentile = np.zeros(len(rows))
        percentile[warm] = self.matrix.percentile(rows[warm], self.options.percentile)
        return warm, percentile

    def forget(self, rows: Rows) -> None:
        for row in rows[rows < self.watched.table.used].tolist():
            self.matrix.clear(row)
        self.watched.forget(rows)

    def state(self) -> State:
        """Returns the state with non-empty buckets only, because a series fills few of its hundreds."""
        used = self.watched.table.used
        rows, buckets = np.nonzero(self.matrix.weights[:used])
        return {
            **named("watched", self.watched.state()),
            "half_life_seconds": np.array([self.options.half_life_seconds]),
            "by_usage": np.array([self.options.by_usage]),
            "rows": rows.astype(np.int32),
            "buckets": buckets.astype(np.int16),
            "weights": self.matrix.weights[rows, buckets],
            "totals": self.matrix.totals[:used].copy(),
            "reference": self.matrix.reference[:used].copy(),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        missing = {"half_life_seconds", "rows", "buckets", "weights", "totals", "reference"} - state.keys()
        if missing:
            raise unusable(min(missing), "is missing")
        if state["half_life_seconds"].tolist() != [self.options.half_life_seconds]:
            have, configured = state["half_life_seconds"].tolist(), self.options.half_life_seconds
            raise unusable("half_life_seconds", f"is {have}, the settings say {configured}")
        if state.get("by_usage", np.array([False])).tolist() != [self.options.by_usage]:
            raise unusable("by_usage", f"is {not self.options.by_usage}, the settings say {self.options.by_usage}")
        self.watched.restore(part_of(state, "watched"))
        used = self.watched.table.used
        if len(state["buckets"]) and state["buckets"].max() >= self.matrix.buckets.count:
            raise unusable("buckets", f"exceeds the {self.matrix.buckets.count} of this layout")
        self.matrix = self._empty(self.matrix.buckets)
        self.matrix.ensure_rows(used)
        self.matrix.ensure_columns(int(state["buckets"].max(initial=-1)) + 1)
        self.matrix.weights[state["rows"], state["buckets"]] = state["weights"]
        self.matrix.totals[:used] = state["totals"]
        self.matrix.reference[:used] = state["reference"]


class DecayingHistograms:
    """The larger of the sum of the pods' peaks and the peak of the combined series."""

    name = "histogram"
    version = "1"

    def __init__(self, options: DecayingOptions, buckets: Buckets) -> None:
        self.options = options
        self.pods = Known(buckets, options)
        self.machines = Known(buckets, options)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        fleet, used = measured(members, usage)
        self.pods.fold(at_seconds, fleet.members.series, used)
        self.machines.fold(at_seconds, fleet.machines, fleet.sums(used))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        warm, percentile = self.pods.read(members.series)
        percentile = np.minimum(percentile, fleet.limit)
        peak = np.minimum(percentile * (1 + self.options.margin), fleet.limit)
        stand_in = fleet.sums(np.where(warm, 0.0, fleet.limit))
        by_pods = fleet.sums(peak) + stand_in
        _, together = self.machines.read(fleet.machines)
        as_one = np.minimum(together * (1 + self.options.margin), fleet.total)
        terms = {
            "pods_percentile": fleet.sums(percentile),
            "safety_margin": fleet.sums(peak - percentile),
            "cold_start_limits": stand_in,
            "together_above_pods": np.maximum(as_one - by_pods, 0.0),
        }
        return fleet.answer(terms, ~warm)

    def merge(self, other: DecayingHistograms) -> None:
        """Adds the histograms of another model of the same series, but not their observation times."""
        for mine, theirs in ((self.pods, other.pods), (self.machines, other.machines)):
            mine.watched.table.use(theirs.watched.table.used)
            mine.matrix.absorb(theirs.matrix)

    def state(self) -> State:
        return {**named("pods", self.pods.state()), **named("machines", self.machines.state())}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.pods.restore(part_of(state, "pods"))
        self.machines.restore(part_of(state, "machines"))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self.pods.forget(series)
        self.machines.forget(machines)
