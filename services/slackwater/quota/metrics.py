"""What quota shows on /metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.decisions.reasons import Reason
from slackwater.fairshare.claims import RunFinding
from slackwater.fairshare.tree import Amounts, is_cpu
from slackwater.quota.domain.tree_figures import QuotaGauges
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters

UNCLAIMED = (Reason.CLAIM_FOUND_NEVER_CLAIMED.value, Reason.CLAIM_FOUND_AFTER_END.value)
RECLAIM_BUCKETS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
MOST_QUOTAS = 200
"""Series per gauge; of more quotas those with the largest figures are shown."""


class QuotaMetrics:
    """What operators watch. Amounts in cores, bytes or pieces."""

    def __init__(self, meters: Meters) -> None:
        self._decisions = meters.counter(
            "slackwater_quota_decisions_total",
            "Decisions about claims.",
            ["reason"],
            look="claim_refused rising: quotas are too small.",
        )
        self._seconds = meters.histogram(
            "slackwater_quota_arbitration_seconds",
            "Time of an arbitration with its write.",
            buckets=DELAY_BUCKETS,
            look="p99 above 1 s: the tree is large, or PostgreSQL is slow.",
        )
        self._conflicts = meters.counter(
            "slackwater_quota_conflicts_total",
            "Arbitrations repeated because another replica wrote first.",
            look="Rising with few claims: two replicas decide about one tree.",
        )
        labels = ["quota", "resource"]
        self._used = meters.gauge(
            "slackwater_quota_used_resources",
            "What the claims of a quota use: cores of a CPU, else bytes or pieces.",
            labels,
            look="At the runtime all the time: the quota is too small.",
        )
        self._runtime = meters.gauge(
            "slackwater_quota_runtime_resources",
            "What a quota may use now.",
            labels,
            look="Below a requested min: the pool has less than all mins.",
        )
        self._owed = meters.gauge(
            "slackwater_quota_owed_resources",
            "What a quota lent and asks for again.",
            labels,
            look="Above 0 for long: it is not given back.",
        )
        self._owed_since = meters.gauge(
            "slackwater_quota_oldest_debt_seconds",
            "How long a quota has been owed something.",
            ["quota"],
            look="Above reclaim delay and grace: reclaims have no effect.",
        )
        self._queued = meters.gauge(
            "slackwater_quota_queued_claims",
            "Claims that wait.",
            ["quota"],
            look="Rising for hours: more comes than ends.",
        )
        self._oldest = meters.gauge(
            "slackwater_quota_oldest_wait_seconds",
            "How long the claim that waits longest has waited.",
            ["quota"],
            look="Above starvation_seconds: a large claim finds no room.",
        )
        self._overdue = meters.gauge(
            "slackwater_quota_overdue_claims",
            "Claims that hold on beyond their grace.",
            ["quota"],
            look="Above 0 for minutes: nothing ends them.",
        )
        self._add_reports(meters)
        self._owed_from: dict[str, float] = {}
        self._shown: dict[str, dict[str, set[str]]] = {}
        """Labels that are set, by tree, quota and resource."""

    def _add_reports(self, meters: Meters) -> None:
        """What agents' reports say of claims."""
        self._unclaimed = meters.gauge(
            "slackwater_quota_unclaimed_workloads",
            "Workloads that run without a claim.",
            ["tree", "reason"],
            look="Above 0 for minutes: `slackwater why claim/WORKLOAD`.",
        )
        self._findings = meters.gauge(
            "slackwater_quota_found_claims",
            "Claims that differ from what agents report.",
            ["quota", "finding"],
            look="never_started above 0: they hold what nothing uses.",
        )
        self._reclaim_seconds = meters.histogram(
            "slackwater_quota_reclaim_seconds",
            "Time from the demand to the end of a claim.",
            ["result"],
            buckets=RECLAIM_BUCKETS,
            look="late: ended after its grace.",
        )

    def decided(self, tree: str, reasons: Sequence[str], seconds: float) -> None:
        """Claims were decided about, and how long that took with its write."""
        for reason in reasons:
            self._decisions.labels(reason).inc()
        self._seconds.observe(seconds)

    def conflict(self, tree: str) -> None:
        """Another replica changed the tree meanwhile: decided again."""
        self._conflicts.inc()

    def unclaimed(self, tree: str, reasons: Sequence[str]) -> None:
        """The workloads that run in a tree without a claim that holds, one reason each."""
        for reason in UNCLAIMED:
            self._unclaimed.labels(tree, reason).set(reasons.count(reason))

    def reclaimed(self, tree: str, seconds: float, *, late: bool) -> None:
        """A claim that had to end has ended, so long after it was told; `late`: after its grace."""
        self._reclaim_seconds.labels("late" if late else "in_time").observe(seconds)

    def show(self, tree: str, figures: QuotaGauges, now_s: float) -> None:
        """The figures of one tree at one moment."""
        names = sorted(figures.used, key=lambda name: (-sum(figures.used[name].values()), name))[:MOST_QUOTAS]
        shown = {name: {*figures.used[name], *figures.runtime[name]} for name in names}
        self._remove(self._shown.get(tree, {}), shown)
        self._shown[tree] = shown
        for name, resources in shown.items():
            for resource in resources:
                self._used.labels(name, resource).set(base_units(resource, figures.used[name]))
                self._runtime.labels(name, resource).set(base_units(resource, figures.runtime[name]))
                self._owed.labels(name, resource).set(base_units(resource, figures.owed[name]))
            if any(figures.owed[name].values()):
                self._owed_from.setdefault(name, now_s)
            else:
                self._owed_from.pop(name, None)
            self._owed_since.labels(name).set(now_s - self._owed_from.get(name, now_s))
            self._queued.labels(name).set(figures.queued[name])
            self._oldest.labels(name).set(figures.oldest_wait_s[name])
            self._overdue.labels(name).set(figures.overdue[name])
            for finding in RunFinding:
                self._findings.labels(name, finding.value).set(figures.found[name].get(finding, 0))

    def _remove(self, before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> None:
        for name, resources in before.items():
            for resource in resources - after.get(name, set()):
                for gauge in (self._used, self._runtime, self._owed):
                    gauge.remove(name, resource)
            if name not in after:
                self._owed_from.pop(name, None)
                for finding in RunFinding:
                    self._findings.remove(name, finding.value)
                for gauge in (self._owed_since, self._queued, self._oldest, self._overdue):
                    gauge.remove(name)


def base_units(resource: str, amounts: Amounts) -> float:
    """Returns an amount in cores, bytes or pieces."""
    amount = amounts.get(resource, 0)
    return amount / 1000 if is_cpu(resource) else float(amount)
