"""What an agent shows on /metrics; the agents of a simulated fleet share one set."""

from __future__ import annotations

from slackwater.agent.adapters.durable import NOT_WRITTEN
from slackwater.agent.usecases.actuate import Outcome
from slackwater.telemetry.metrics import Meters, Summed

TICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class AgentMetrics:
    """What agents count. `node` keeps those of a fleet apart; it is no label. The expired leases of `writers` are
    counted from 0, those of others from their first."""

    def __init__(self, meters: Meters, *writers: str) -> None:
        self._ticks = meters.histogram(
            "slackwater_agent_tick_seconds",
            "Sampling and converging, per sample.",
            buckets=TICK_BUCKETS,
            look="p99 above a tenth of the sample interval: too many pods.",
        )
        self._sampled = meters.gauge(
            "slackwater_agent_last_sample_timestamp_seconds",
            "Last sample, since 1970.",
            look="time() minus it above 5: the agent hangs.",
        )
        self._reports = meters.counter(
            "slackwater_agent_reports_total",
            "Reports (interval, waterline, shutdown, leave).",
            ["reason"],
            look="Mostly waterline: prod often waits for CPU.",
        )
        self._dropped = meters.counter(
            "slackwater_agent_reports_dropped_total",
            "Reports dropped because the bus was away.",
            look="Any growth: broker away; they count as missing.",
        )
        self._waiting = Summed(
            meters.gauge(
                "slackwater_agent_waiting_messages",
                "Facts and reports waiting for the bus.",
                look="Above 0 for longer than a reconnect.",
            )
        )
        self._writes = meters.counter(
            "slackwater_agent_writes_total",
            "Values written (done, or error code).",
            ["result"],
            look="Other than done, not_found: kernel or another program resists.",
        )
        self._foreign = meters.counter(
            "slackwater_agent_foreign_writes_total",
            "Values that another program changed; no longer written.",
            look="Any growth: two programs manage the cgroups.",
        )
        self._leases = meters.counter(
            "slackwater_agent_leases_expired_total",
            "Expired leases of intents; limits are then restored.",
            ["writer"],
            look="Any growth: writer or broker away longer than a lease.",
        )
        self._throttled = Summed(
            meters.gauge(
                "slackwater_agent_throttled_pods",
                "CPU limits in force.",
                look="Differs from slackwater_ensurance_throttled_pods for long: intents do not arrive.",
            )
        )
        self._evictions = meters.counter(
            "slackwater_agent_evictions_total",
            "Evictions ended.",
            ["result"],
            look="failed or refused.",
        )
        for result in ("done", "write_refused", NOT_WRITTEN):  # a first refusal is an increase, not a new series
            self._writes.labels(result)
        for writer in writers:
            self._leases.labels(writer)

    def ticked(self, node: str, seconds: float, at: float, waiting: int, throttled: int) -> None:
        self._ticks.observe(seconds)
        self._sampled.set(at)
        self._waiting.set(node, waiting)
        self._throttled.set(node, throttled)

    def reported(self, reason: str) -> None:
        self._reports.labels(reason).inc()

    def dropped(self) -> None:
        self._dropped.inc()

    def wrote(self, outcome: Outcome) -> None:
        self._writes.labels("done").inc(outcome.done)
        for code in outcome.errors.values():
            self._writes.labels(code).inc()
        self._foreign.inc(len(outcome.yielded))

    def lease_expired(self, writer: str) -> None:
        self._leases.labels(writer).inc()

    def evicted(self, outcome: str) -> None:
        self._evictions.labels(outcome).inc()
