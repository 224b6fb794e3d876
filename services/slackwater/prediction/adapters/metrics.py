"""What prediction shows on /metrics."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class PredictionMetrics:
    """Windows folded, series kept, snapshots by result."""

    def __init__(self, meters: Meters) -> None:
        self._windows = meters.counter(
            "slackwater_prediction_windows_folded_total",
            "Windows folded into the models.",
            look="It follows slackwater_ingestion_windows_closed_total; a standstill lets offers decay.",
        )
        self._series = meters.gauge(
            "slackwater_prediction_series",
            "Series that have a model.",
            look="Steady growth with a steady fleet: pods are not forgotten.",
        )
        self._snapshots = meters.counter(
            "slackwater_prediction_snapshots_total",
            "Snapshots of the models by result (kept, failed, refused).",
            ["result"],
            look="failed or refused: the next start replays more.",
        )

    def folded(self, windows: int, series: int) -> None:
        self._windows.inc(windows)
        self._series.set(series)

    def snapshot(self, result: str) -> None:
        """`kept`, `failed` (the store was away), or `refused` (a stored one was not usable at start)."""
        self._snapshots.labels(result).inc()
