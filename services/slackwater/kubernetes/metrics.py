"""Prometheus metrics of kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class KubernetesMetrics:
    """What is written to nodes. It is slackwater.apiserver.kind_follower.FollowMeter, too."""

    def __init__(self, meters: Meters) -> None:
        self._objects = meters.gauge(
            "slackwater_kubernetes_objects",
            "Objects read from the API server.",
            ["kind"],
            look="0 of a kind that the cluster has: see /readyz.",
        )
        self._lists = meters.counter(
            "slackwater_kubernetes_lists_total",
            "Lists of a kind (first, expired, restored, served).",
            ["kind", "reason"],
            look="expired grows: watches are cut for minutes.",
        )
        self._interruptions = meters.counter(
            "slackwater_kubernetes_interruptions_total",
            "Failed lists and watches, by error code.",
            ["kind", "reason"],
            look="misconfigured: a right is missing; kind_not_served: a definition was deleted.",
        )
        self._writes = meters.counter(
            "slackwater_kubernetes_status_writes_total",
            "Writes to the status of nodes.",
            ["reason"],
            look="Some per minute and node: offers swing.",
        )
        self._refusals = meters.counter(
            "slackwater_kubernetes_status_refusals_total",
            "Failed writes to the status of nodes, by error code.",
            ["reason"],
            look="conflict heals; misconfigured: a right is missing.",
        )
        self._waiting = meters.gauge(
            "slackwater_kubernetes_status_waiting_nodes",
            "Nodes whose write waits.",
            look="Above 0 for minutes: raise SLACKWATER_KUBERNETES_WRITES_PER_SECOND.",
        )
        self._foreign = meters.gauge(
            "slackwater_kubernetes_foreign_resources",
            "Lent amounts that another field manager owns, and that are left.",
            look="Above 0: /readyz names them; two controllers lend the same nodes.",
        )
        self._delay = meters.histogram(
            "slackwater_kubernetes_status_delay_seconds",
            "From an offer to the node's status.",
            buckets=DELAY_BUCKETS,
            look="p99 above 3 s: the API server is slow, or writes wait.",
        )

        self._rights = meters.gauge(
            "slackwater_kubernetes_missing_rights",
            "1 for a right that the API server refused last.",
            ["right"],
            look="1: grant it, as the chart does.",
        )
        self._named: set[str] = set()
        self._skew = meters.gauge(
            "slackwater_kubernetes_clock_skew_seconds",
            "How far the API server's clock is ahead of the service's.",
            look="Beyond 5 s: one of the hosts has no time service.",
        )

    def rights(self, missing: Sequence[str]) -> None:
        """The rights that are missing now."""
        self._named |= set(missing)
        for right in self._named:
            self._rights.labels(right).set(right in missing)

    def clock_skew(self, seconds: float | None) -> None:
        if seconds is not None:
            self._skew.set(seconds)

    def objects(self, counts: Mapping[str, int]) -> None:
        """Objects by kind."""
        for kind, count in counts.items():
            self._objects.labels(kind).set(count)

    def listed(self, kind: str, reason: str) -> None:
        self._lists.labels(kind, reason).inc()

    def interrupted(self, kind: str, reason: str) -> None:
        self._interruptions.labels(kind, reason).inc()

    def written(self, reason: str, delay_seconds: float | None) -> None:
        """A write was made; how long after its offer, None if there is none."""
        self._writes.labels(reason).inc()
        if delay_seconds is not None:
            self._delay.observe(max(0.0, delay_seconds))

    def refused(self, reason: str) -> None:
        """A write failed: the code of the error."""
        self._refusals.labels(reason).inc()

    def foreign(self, amounts: int) -> None:
        """How many amounts of offers are left to other managers, which own them."""
        self._foreign.set(amounts)

    def waiting(self, nodes: int) -> None:
        """How many nodes wait, because the rate of writes is bounded."""
        self._waiting.set(nodes)


class EvictionMetrics:
    """Evictions that the API server was asked for."""

    def __init__(self, meters: Meters) -> None:
        self._calls = meters.counter(
            "slackwater_kubernetes_eviction_calls_total",
            "Answers of the API server to evictions.",
            ["result"],
            look="failed: a right is missing, or the server is away.",
        )
        self._completed = meters.counter(
            "slackwater_kubernetes_evictions_total",
            "Evictions that ended, by outcome.",
            ["result"],
            look="expired: budgets or the API server held them until their deadline.",
        )
        self._open = meters.gauge(
            "slackwater_kubernetes_open_evictions",
            "Evictions that have not ended.",
            look="Above 0 for minutes: a budget allows nothing, or a pod does not end.",
        )

    def called(self, result: str) -> None:
        """The API server answered a call."""
        self._calls.labels(result).inc()

    def completed(self, outcome: str) -> None:
        """An eviction ended."""
        self._completed.labels(outcome).inc()

    def open(self, evictions: int) -> None:
        """How many evictions of this replica have not ended."""
        self._open.set(evictions)


class CordonMetrics:
    """Nodes that are closed for new pods."""

    def __init__(self, meters: Meters) -> None:
        self._writes = meters.counter(
            "slackwater_kubernetes_cordon_writes_total",
            "Taints written: cordoned (also renewals) and uncordoned.",
            ["result"],
            look="A cordoned node is renewed every minute.",
        )
        self._refusals = meters.counter(
            "slackwater_kubernetes_cordon_refusals_total",
            "Failed writes of taints, by error code.",
            ["reason"],
            look="conflict heals; misconfigured: a right is missing.",
        )

    def written(self, result: str) -> None:
        """A node was `cordoned` (or its cordon renewed) or `uncordoned`."""
        self._writes.labels(result).inc()

    def refused(self, reason: str) -> None:
        """A write failed: the code of the error."""
        self._refusals.labels(reason).inc()


class DocumentMetrics:
    """Documents that come from objects of the cluster."""

    def __init__(self, meters: Meters) -> None:
        self._answers = meters.counter(
            "slackwater_kubernetes_documents_total",
            "Custom resources sent to the services.",
            ["kind", "result"],
            look="refused: the condition Followed of the resource says why.",
        )
        self._statuses = meters.counter(
            "slackwater_kubernetes_document_statuses_total",
            "Writes to the status of custom resources.",
            ["kind"],
            look="Some per minute and resource: what its kind counts swings.",
        )

        self._refusals = meters.counter(
            "slackwater_kubernetes_document_status_refusals_total",
            "Failed writes to the status of custom resources, by error code.",
            ["kind", "reason"],
            look="definition_outdated: apply this version's definitions; misconfigured: a right is missing.",
        )

    def answered(self, kind: str, result: str) -> None:
        """A document was `stored`, `deleted`, `refused`, or could not be sent (`unavailable`)."""
        self._answers.labels(kind, result).inc()

    def status_written(self, kind: str) -> None:
        """The status of a resource was written."""
        self._statuses.labels(kind).inc()

    def status_refused(self, kind: str, reason: str) -> None:
        """A write of a status failed: the code of the error."""
        self._refusals.labels(kind, reason).inc()


class AdmissionMetrics:
    """Pods that the webhook has seen."""

    def __init__(self, meters: Meters) -> None:
        self._reviews = meters.counter(
            "slackwater_kubernetes_admission_reviews_total",
            "Pods that the API server asked the webhook about.",
            ["result"],
            look="failed: pods pass as they are; the log says why.",
        )
        self._expiry = meters.gauge(
            "slackwater_kubernetes_webhook_certificate_seconds",
            "Time until the certificate of the webhook expires.",
            look="Below a third of its time: it is not renewed, see the log.",
        )

    def reviewed(self, result: str) -> None:
        """A pod was reviewed: `changed`, `unchanged`, or `failed` (it passed as it was)."""
        self._reviews.labels(result).inc()

    def expires_in(self, seconds: float) -> None:
        """Time until the served certificate expires."""
        self._expiry.set(max(0.0, seconds))


class EventMetrics:
    """Events that were written."""

    def __init__(self, meters: Meters) -> None:
        self._events = meters.counter(
            "slackwater_kubernetes_events_total",
            "Kubernetes Events.",
            ["result"],
            look="dropped grows: much is refused at once; /readyz says what.",
        )

    def event(self, result: str, count: int = 1) -> None:
        """Events were `written`, `counted` (a series), `refused` or `dropped`."""
        self._events.labels(result=result).inc(count)
