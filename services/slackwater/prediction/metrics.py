"""Prometheus metrics of prediction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from slackwater.prediction.ports import MeasuredRisk
from slackwater.telemetry.metrics import Meters

DAY = 86_400.0


class PredictionMetrics:
    """Counts folded windows and snapshots by result, and sets the number of series."""

    def __init__(self, meters: Meters) -> None:
        self._windows = meters.counter(
            "slackwater_prediction_windows_folded_total",
            "Windows folded into the models.",
            look="Follows slackwater_ingestion_windows_closed_total; else offers decay.",
        )
        self._series = meters.gauge(
            "slackwater_prediction_series",
            "Series with a model.",
            look="Growth with a constant fleet: deleted pods stay.",
        )
        self._snapshots = meters.counter(
            "slackwater_prediction_snapshots_total",
            "Model snapshots (kept, failed, refused).",
            ["result"],
            look="failed or refused: the next start replays more.",
        )

    def folded(self, windows: int, series: int) -> None:
        self._windows.inc(windows)
        self._series.set(series)

    def snapshot(self, result: str) -> None:
        """Counts a snapshot: `kept`, `failed` (the store was unavailable), or `refused` (a stored one was not
        usable).
        """
        self._snapshots.labels(result).inc()


class CalibrationMetrics:
    """Metrics of the predictions.

    `measured` is called once per report and partition for every pool and resource, with the ledger's values; the
    partitions of a pool are added up. `published` is called with every committed batch, `cold` with `measured`.
    `dropped` is called when a partition is released or lost, so that it is not counted twice in the fleet.
    """

    def __init__(self, meters: Meters) -> None:
        labels = ["pool", "resource"]
        self._judged = meters.gauge(
            "slackwater_prediction_judged_seconds",
            "Machine-time of finished 24 h windows.",
            labels,
            look="A rate of 1 % needs some hundred machine-days.",
        )
        self._violated = meters.gauge(
            "slackwater_prediction_violated_seconds",
            "Machine-time of those above the predicted peak.",
            labels,
            look="By judged seconds: the violation rate.",
        )
        self._coverage = meters.gauge(
            "slackwater_prediction_coverage_ratio",
            "Share of finished 24 h windows below the predicted peak.",
            labels,
            look="Below 1 - 1.5 x the stated rate for a day: see the runbook.",
        )
        self._stated = meters.gauge(
            "slackwater_prediction_stated_violation_ratio",
            "Share of 24 h windows accepted above the peak; absent without one.",
            labels,
            look="Equals the policy's violationRate.",
        )
        self._knob = meters.gauge(
            "slackwater_prediction_knob_ratio",
            "Largest insured part of the risk in force; absent without one.",
            labels,
            look="Rising: predictions were too low, savings shrink.",
        )
        self._cold = meters.gauge(
            "slackwater_prediction_cold_start_ratio",
            "Share of prod unknown to the model.",
            ["pool"],
            look="High for a day: names change, or short-lived pods.",
        )
        self._published = meters.counter(
            "slackwater_prediction_published_total",
            "Published predictions (first, report, diff, force).",
            ["reason"],
            look="Mostly diff: values jump; only force: no windows are folded.",
        )
        self._newest = meters.gauge(
            "slackwater_prediction_newest_timestamp_seconds",
            "Time of the newest prediction.",
            look="time() minus it above forceUpdateIntervalSeconds: prediction stopped.",
        )
        self._measured: dict[tuple[str, str], dict[int, MeasuredRisk]] = defaultdict(dict)
        self._cold_parts: dict[str, dict[int, tuple[int, float]]] = defaultdict(dict)

    def measured(self, partition: int, pool: str, resource: str, measured: MeasuredRisk) -> None:
        self._measured[pool, resource][partition] = measured
        self._show(pool, resource)

    def published(self, cause: str, predictions: int, newest: datetime) -> None:
        """Counts predictions. `cause` is that of the event: first, report, diff or force; `newest` its predicted_at."""
        self._published.labels(cause).inc(predictions)
        self._newest.set(newest.timestamp())

    def cold(self, partition: int, pool: str, nodes: int, share: float) -> None:
        """Sets the mean cold-start ratio (0..1) over the pool's nodes in this partition."""
        self._cold_parts[pool][partition] = (nodes, share)
        self._show_cold(pool)

    def dropped(self, partition: int) -> None:
        for (pool, resource), parts in self._measured.items():
            if parts.pop(partition, None) is not None:
                self._show(pool, resource)
        for pool, shares in self._cold_parts.items():
            if shares.pop(partition, None) is not None:
                self._show_cold(pool)

    def _show(self, pool: str, resource: str) -> None:
        parts = self._measured[pool, resource].values()
        days = sum(part.machine_days for part in parts)
        violated = sum((part.measured_rate or 0.0) * part.machine_days for part in parts)
        self._judged.labels(pool, resource).set(days * DAY)
        self._violated.labels(pool, resource).set(violated * DAY)
        gauges = (
            (self._coverage, 1 - violated / days if days > 0 else None),
            (self._stated, _largest(part.stated_rate for part in parts)),
            (self._knob, _largest(part.knob for part in parts)),
        )
        for gauge, value in gauges:
            if value is not None:
                gauge.labels(pool, resource).set(value)
            else:
                gauge.remove(pool, resource)

    def _show_cold(self, pool: str) -> None:
        parts = self._cold_parts[pool].values()
        nodes = sum(count for count, _ in parts)
        self._cold.labels(pool).set(sum(count * share for count, share in parts) / nodes if nodes else 0.0)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
