"""What the descheduler shows on /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class DeschedulerMetrics:
    """What operators watch of cycles."""

    def __init__(self, meters: Meters) -> None:
        self._cycles = meters.counter(
            "slackwater_descheduler_cycles_total",
            "Cycles of profiles, by what started them.",
            ["reason"],
            look="Only interval: events start no cycle. Rising fast: raise debounceSeconds.",
        )
        self._seconds = meters.histogram(
            "slackwater_descheduler_cycle_seconds",
            "Time of the decision of a cycle.",
            buckets=DELAY_BUCKETS,
            look="p99 above 3 s: the cluster is large; divide it into profiles by pool.",
        )
        self._proposed = meters.counter(
            "slackwater_descheduler_proposed_pods_total",
            "Pods proposed for a move, by plugin; result dry_run where nothing was published.",
            ["plugin", "result"],
            look="Rising under constant load: profiles work against each other.",
        )
        self._refused = meters.counter(
            "slackwater_descheduler_refused_pods_total",
            "Pods that were not proposed, by reason.",
            ["reason"],
            look="no_target: nothing fits elsewhere. total, per_node: limits hold the cycle back.",
        )
        self._looping = meters.gauge(
            "slackwater_descheduler_looping_workloads",
            "Workloads that stay where they are, because they were moved too often.",
            look="Above 0: something else places them badly again and again.",
        )
        self._gained = meters.counter(
            "slackwater_descheduler_measured_moves_total",
            "Moves of plans that ended, by what their measured gain is beside the expected one.",
            ["result"],
            look="worse rising: predictions are wrong, or something else loads the targets meanwhile.",
        )
        self._loops: dict[str, int] = {}

    def cycle(self, profile: str, trigger: str, seconds: float) -> None:
        """A cycle was run, and how long its decision took."""
        self._cycles.labels(trigger).inc()
        self._seconds.observe(seconds)

    def proposed(self, plugins: Mapping[str, int], *, dry_run: bool) -> None:
        """Pods were proposed, by plugin."""
        for plugin, count in plugins.items():
            self._proposed.labels(plugin, "dry_run" if dry_run else "proposed").inc(count)

    def refused(self, reasons: Mapping[str, int]) -> None:
        """Pods were not proposed, by reason."""
        for reason, count in reasons.items():
            self._refused.labels(reason).inc(count)

    def gained(self, results: Mapping[str, int]) -> None:
        """Moves of a plan ended, by what their measured gain is beside the expected one."""
        for result, count in results.items():
            self._gained.labels(result).inc(count)

    def looping(self, profile: str, workloads: int) -> None:
        """So many workloads of a profile are stopped, because they were moved too often."""
        self._loops[profile] = workloads
        self._looping.set(max(self._loops.values()))
