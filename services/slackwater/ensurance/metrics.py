"""What ensurance shows on /metrics."""

from __future__ import annotations

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordForm
from slackwater.events.effect_measured import EffectMeasured
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters, Summed

MILLI = 1000


class EnsuranceMetrics:
    """What operators watch. Nodes are summed up: 2,000 of them are no labels. Leases are metered by it, too: see
    slackwater.intents.ports.LeaseMeter."""

    def __init__(self, meters: Meters) -> None:
        self._decisions = meters.counter(
            "slackwater_ensurance_decisions_total",
            "Throttles, restores, evictions, closings.",
            ["kind", "reason"],
            look="throttle without restore: prod lacks CPU for long. evict rising: too much lent.",
        )
        self._records = meters.counter(
            "slackwater_ensurance_decision_records_total",
            "Decisions by form of their record (full, compact, listed in a later one).",
            ["result"],
            look="compact or listed growing: nodes use up their budget of records.",
        )
        for form in RecordForm:
            self._records.labels(form.value)
        self._ignored = meters.counter(
            "slackwater_ensurance_reports_ignored_total",
            "Reports that cause no action.",
            ["reason"],
            look="too_old: the usage path is late. from_the_future: a node's clock. known: urgent ones, seen twice. "
            "alone: disconnected agents.",
        )
        pods = meters.gauge(
            "slackwater_ensurance_throttled_pods",
            "Pods with a CPU limit of Slackwater.",
            look="Not back at 0 in quiet hours.",
        )
        nodes = meters.gauge(
            "slackwater_ensurance_throttled_nodes",
            "Nodes with a throttled pod.",
            look="Most of a pool: waterline or offers are wrong.",
        )
        self._pods, self._throttled_nodes = Summed(pods), nodes
        self._remaining = Summed(
            meters.gauge(
                "slackwater_ensurance_remaining_gap_cores",
                "CPU that prod lacked and no pod could release.",
                look="Above 0: throttling is not enough.",
            )
        )
        self._latency = meters.histogram(
            "slackwater_loop_latency_seconds",
            "From the crossing sample to decision, actuation, effect as first sampled.",
            ["stage"],
            buckets=DELAY_BUCKETS,
            look="p99 above 1 s (decision) or 2 s (actuation).",
        )
        self._effects = meters.counter(
            "slackwater_ensurance_effects_total",
            "Measured effects (relieved, unrelieved).",
            ["kind", "result"],
            look="Mostly unrelieved throttles or evictions: no help to prod.",
        )
        for kind in (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT):
            for result in ("relieved", "unrelieved"):  # an alert compares them: none is a number, too
                self._effects.labels(kind, result)
        self._reversals = meters.counter(
            "slackwater_ensurance_reversals_total",
            "Limits of a node that fell after they had risen (surge: of prod; damped; longest: by the longest wait).",
            ["pool", "result"],
            look="longest growing: limits flap; the log names the node (limits flap).",
        )
        self._count_evictions(meters)
        self._closed = meters.gauge(
            "slackwater_ensurance_closed_nodes",
            "Nodes closed for new pods.",
            look="Most of a pool, or for hours: see why node/NAME scheduling.",
        )

    def _count_evictions(self, meters: Meters) -> None:
        self._evictions = meters.counter(
            "slackwater_ensurance_evictions_ended_total",
            "Evictions completed by agents.",
            ["result"],
            look="Too many for batch; failed: a pod survives SIGKILL.",
        )
        self._began = meters.counter(
            "slackwater_ensurance_evictions_total",
            "Evictions requested of agents.",
            ["pool"],
            look="More than 20 in ten minutes.",
        )
        self._repeated = meters.counter(
            "slackwater_ensurance_evictions_repeated_total",
            "Evictions of pods started after their workload lost one in the pool within the hour.",
            ["pool"],
            look="Any growth; the log names the workload (evicted again).",
        )
        self._renewals = meters.counter(
            "slackwater_ensurance_lease_renewals_total",
            "Lease renewals per partition (told; outbox_behind, unavailable: not renewed).",
            ["result"],
            look="told: 1.6 a second. Others for 15 s: agents act alone.",
        )
        for result in ("told", "outbox_behind", "unavailable"):
            self._renewals.labels(result)
        self._stepped_back = meters.gauge(
            "slackwater_ensurance_stepped_back_pools",
            "Pools in fallback from evicting to throttling.",
            look="Above 0: see /v1/decisions?kind=evict.",
        )

    def decided(self, record: DecisionRecord, sample_age_seconds: float | None) -> None:
        """A decision, and how old the sample was that led to it (None: a policy did)."""
        self._decisions.labels(record.kind, record.reason).inc()
        if sample_age_seconds is not None:
            self._latency.labels("decision").observe(max(0.0, sample_age_seconds))

    def recorded(self, form: str) -> None:
        """A decision was recorded wholly, in a compact form, or is listed in a later record."""
        self._records.labels(form).inc()

    def standing(self, node: str, throttled: int, remaining_milli: int) -> None:
        """How many pods are throttled on a node, and what part of its last gap stays open."""
        self._pods.set(node, throttled)
        self._throttled_nodes.set(self._pods.keys)
        self._remaining.set(node, remaining_milli / MILLI)

    def reversed(self, pool: str, result: str) -> None:
        """Limits of a node fell after they had risen: for a surge, damped, or damped by the longest wait."""
        self._reversals.labels(pool, result).inc()

    def ignored(self, reason: str) -> None:
        """A report that must not cause action."""
        self._ignored.labels(reason).inc()

    def effect(self, effect: EffectMeasured, kind: str, decision_age_seconds: float) -> None:
        """What came of a decision of this kind that was made so long after its sample."""
        self._effects.labels(kind, "relieved" if effect.relieved else "unrelieved").inc()
        self._latency.labels("actuation").observe(max(0.0, decision_age_seconds + effect.seconds_to_actuation))
        self._latency.labels("effect").observe(max(0.0, decision_age_seconds + effect.seconds_to_measurement))

    def evictions_began(self, pool: str, number: int, repeated: int) -> None:
        """A pool's first eviction begins its series of repeated ones at 0, so that the next is an increase."""
        self._began.labels(pool).inc(number)
        self._repeated.labels(pool).inc(repeated)

    def evicted(self, outcome: str) -> None:
        self._evictions.labels(outcome).inc()

    def renewed(self, result: str) -> None:
        self._renewals.labels(result).inc()

    def closed(self, nodes: int) -> None:
        """How many nodes take no new pods now."""
        self._closed.set(nodes)

    def stepped_back(self, pools: int) -> None:
        """How many pools may evict and only throttle for now, because a guard has tripped."""
        self._stepped_back.set(pools)
