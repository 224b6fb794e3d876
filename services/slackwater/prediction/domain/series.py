"""The state of prediction and the one way it changes: folding the next window of a node.

Each pod, the node, each tier that has pods, and the system is a series; its sample is the window's p90. A tier
without pods and a system that could not be measured get no sample: zeros would teach the model that they are idle.
The state is a function of the windows folded and their order alone, which is what makes replay exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slackwater.prediction.domain.buckets import CPU_MILLI, MEMORY_BYTES, Floats, Rows
from slackwater.prediction.domain.histogram import HistogramMatrix, RowAllocator, SeriesKey

Samples = dict[SeriesKey, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Half-lives of the histograms and how long a series is kept after its last sample, in seconds of the stream."""

    cpu_half_life_seconds: float = 12 * 3600.0
    memory_half_life_seconds: float = 24 * 3600.0
    pod_retention_seconds: float = 1800.0
    node_retention_seconds: float = 7 * 86400.0
    collect_every_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class WindowSamples:
    """What one window teaches: (CPU in milli-cores, memory in bytes) per series, and when the window was."""

    node: str
    start_seconds: int
    end_seconds: int
    samples: Samples


@dataclass(frozen=True, slots=True)
class Quantiles:
    """What a series' model says: p95 of CPU in milli-cores, p98 of memory in bytes, from how many windows."""

    cpu_milli: int
    memory_bytes: int
    windows: int


class PredictionState:
    """All series of all nodes, and how far each node has been folded (seconds since 1970)."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.rows = RowAllocator()
        self.cpu = HistogramMatrix(CPU_MILLI, settings.cpu_half_life_seconds)
        self.memory = HistogramMatrix(MEMORY_BYTES, settings.memory_half_life_seconds)
        self.windows: Rows = np.zeros(0, dtype=np.intp)
        self.last_sample: Floats = np.zeros(0)
        self.folded_until: dict[str, int] = {}
        self.latest_seconds = 0
        self.collected_seconds = 0

    def fold(self, window: WindowSamples) -> bool:
        """Add the window's samples; False if this node's windows had already come that far."""
        if window.start_seconds < self.folded_until.get(window.node, 0):
            return False
        rows = self._rows_of(window.samples)
        pairs = np.array(list(window.samples.values()), dtype=np.float64).reshape(-1, 2)
        at = np.full(len(rows), float(window.end_seconds))
        self.cpu.add(rows, pairs[:, 0], at)
        self.memory.add(rows, pairs[:, 1], at)
        self.windows[rows] += 1
        self.last_sample[rows] = at
        self.folded_until[window.node] = window.end_seconds
        self.latest_seconds = max(self.latest_seconds, window.end_seconds)
        self._collect()
        return True

    def quantiles(self, keys: Iterable[SeriesKey], cpu_share: float, memory_share: float) -> dict[SeriesKey, Quantiles]:
        """What the models of these series say; a series never seen is not in the answer."""
        known = [(key, row) for key in keys if (row := self.rows.find(key)) is not None]
        rows = np.array([row for _, row in known], dtype=np.intp)
        cpu = self.cpu.percentile(rows, cpu_share).tolist()
        memory = self.memory.percentile(rows, memory_share).tolist()
        windows = self.windows[rows].tolist()
        return {key: Quantiles(int(cpu[n]), int(memory[n]), windows[n]) for n, (key, _) in enumerate(known)}

    def _rows_of(self, samples: Samples) -> Rows:
        taken = [self.rows.take(key)[0] for key in samples]
        self.ensure_rows(len(self.rows.keys))
        return np.array(taken, dtype=np.intp)

    def ensure_rows(self, count: int) -> None:
        self.cpu.ensure_rows(count)
        self.memory.ensure_rows(count)
        more = len(self.cpu.totals) - len(self.windows)
        if more > 0:
            self.windows = np.concatenate([self.windows, np.zeros(more, dtype=np.intp)])
            self.last_sample = np.concatenate([self.last_sample, np.zeros(more)])

    def _collect(self) -> None:
        """Free the rows of series that got no sample for too long, by the stream's time, not by a clock."""
        if self.latest_seconds < self.collected_seconds + self.settings.collect_every_seconds:
            return
        self.collected_seconds = self.latest_seconds
        in_row_order = sorted(self.rows.rows.items(), key=lambda item: item[1])  # the same after a restore
        for key, row in in_row_order:
            pod = key.kind == "pod"
            keep = self.settings.pod_retention_seconds if pod else self.settings.node_retention_seconds
            if self.last_sample[row] < self.latest_seconds - keep:
                self._forget(key)

    def _forget(self, key: SeriesKey) -> None:
        row = self.rows.give_back(key)
        self.cpu.clear(row)
        self.memory.clear(row)
        self.windows[row] = 0
        self.last_sample[row] = 0.0
        if key.kind == "node":
            self.folded_until.pop(key.node, None)
