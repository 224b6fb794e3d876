"""Prometheus metrics of colocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.colocation.ports import Found
from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.offers.node import PoolTotals
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters

MILLI = 1000
ALL = "Every replica counts all: take the maximum, not the sum."


class ColocationMetrics:
    """Offered amounts and capacity per pool and tier, and changes of offers."""

    def __init__(self, meters: Meters) -> None:
        self._cpu = meters.gauge(
            "slackwater_offered_cpu_cores",
            "CPU offered to a tier in a pool.",
            ["pool", "tier"],
            look=f"A drop by half within minutes. {ALL}",
        )
        self._memory = meters.gauge(
            "slackwater_offered_memory_bytes",
            "Memory offered to a tier in a pool.",
            ["pool", "tier"],
            look=f"A drop by half within minutes. {ALL}",
        )
        self._cpu_capacity = meters.gauge(
            "slackwater_capacity_cpu_cores",
            "CPU of a pool's nodes.",
            ["pool"],
            look="To compare with offers.",
        )
        self._memory_capacity = meters.gauge(
            "slackwater_capacity_memory_bytes",
            "Memory of a pool's nodes.",
            ["pool"],
            look="To compare with offers.",
        )
        self._over = meters.gauge(
            "slackwater_overoffered_nodes",
            "Nodes whose offers exceed their capacity.",
            ["pool"],
            look="Above 0: a defect; report it with the decision record.",
        )
        self._changes = meters.counter(
            "slackwater_offer_changes_total",
            "Offers published (whole, degraded).",
            ["result", "reason"],
            look="degraded: predictions or usage missing or old.",
        )
        self._passed = meters.counter(
            "slackwater_colocation_full_pass_nodes_total",
            "Nodes of the full pass (skipped, same, followed, aged, healed).",
            ["result"],
            look="healed: damaged state or a missed event; see offer_healed.",
        )
        for result in Found:
            self._passed.labels(result.value)
        self._delay = meters.histogram(
            "slackwater_offer_delay_seconds",
            "From an offer's cause (usually a window's end) to the offer.",
            buckets=DELAY_BUCKETS,
            look="p99 above 2 s: prediction or colocation lags.",
        )

    def published(self, events: Sequence[Event[Any]], caused_seconds_ago: float | None) -> None:
        """Counts the offers of one transaction."""
        for event in events:
            if isinstance(offer := event.data, ResourcesOffered):
                self._changes.labels("whole" if offer.degraded is None else "degraded", offer.reason).inc()
                if caused_seconds_ago is not None:
                    self._delay.observe(max(0.0, caused_seconds_ago))

    def passed(self, counts: Mapping[Found, int]) -> None:
        """Counts the nodes of one full pass by result."""
        for result, count in counts.items():
            self._passed.labels(result.value).inc(count)

    def totals(self, pools: Sequence[PoolTotals]) -> None:
        for total in pools:
            for tier, offered in (("batch", total.batch), ("mid", total.mid)):
                self._cpu.labels(total.pool, tier).set(offered.cpu_milli / MILLI)
                self._memory.labels(total.pool, tier).set(offered.memory_bytes)
            self._cpu_capacity.labels(total.pool).set(total.capacity.cpu_milli / MILLI)
            self._memory_capacity.labels(total.pool).set(total.capacity.memory_bytes)
            self._over.labels(total.pool).set(total.overoffered)
