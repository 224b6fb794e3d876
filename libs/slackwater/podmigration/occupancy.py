"""What migrations use of each limit, and the filter that holds a job: the readable form of arbitration, job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slackwater.podmigration.budgets import can_spare_a_replica, workload_budget
from slackwater.podmigration.limits import HoldFilter, JobHold, MigrationLimits, SkipGate
from slackwater.podmigration.rate import LimiterBucket, LimiterScope
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

PLUGIN_COUNT = (1, 0)
"""Count and limit of what a plugin holds: it states neither."""


class MigrationOccupancy:
    """Counters by pod, node, namespace, workload and budget. Jobs that are admitted in a round are added to it."""

    def __init__(self, snapshot: MigrationSnapshot, now_s: float) -> None:
        self._snapshot = snapshot
        self._limits = snapshot.limits
        self._now_s = now_s
        self.total = 0
        self.pods: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()
        self.namespaces: Counter[str] = Counter()
        self.workloads: Counter[str] = Counter()
        self.disrupted: dict[str, set[str]] = {
            name: set(workload.unready) for name, workload in snapshot.workloads.items()
        }
        """By workload: pods that are not ready or are migrating, each once."""
        self.budgets: Counter[str] = Counter()
        """Evictions to come, beyond what the healthy pods of a budget show."""
        self.buckets: dict[tuple[LimiterScope, str], LimiterBucket] = {}
        """Those that were spent from, refilled to now."""
        for job in snapshot.active:
            self._add(job, job.replacement or job.pod, evicted=job.evicted)
            if job.replacement:  # while it is not ready, another move of it would take this one's end for its own
                self.pods[job.replacement] += 1

    def admit(self, job: WaitingJob) -> None:
        """Counts a job as under way and spends its tokens."""
        self._add(job, job.pod, evicted=False)
        for scope, name in limiter_keys(job):
            bucket = self.bucket(scope, name)
            if bucket is not None:
                self.buckets[scope, name] = bucket.spent()

    def bucket(self, scope: LimiterScope, name: str) -> LimiterBucket | None:
        """Returns the bucket now; None where nothing limits the object."""
        rate_per_s = limiter_rate(self._snapshot, scope, name)
        if rate_per_s is None:
            return None
        if (scope, name) in self.buckets:
            return self.buckets[scope, name]
        burst = float(self._limits.object_limiters[scope].burst)
        return self._snapshot.buckets.get((scope, name), LimiterBucket(burst, self._now_s)).refilled(
            self._now_s, rate_per_s, burst
        )

    def hold(self, job: WaitingJob, held_by_plugins: Mapping[str, str]) -> JobHold | None:
        """Returns the first filter that holds the job now; None where it may be admitted."""
        for name, scope, count, limit in (*self._identity(job, held_by_plugins), *self._counts(job)):
            if count >= limit:
                return JobHold(name, scope, count, limit, self._now_s)
        return None

    def _identity(self, job: WaitingJob, held_by_plugins: Mapping[str, str]) -> list[tuple[HoldFilter, str, int, int]]:
        unknown = job.workload != "" and job.workload not in self._snapshot.workloads
        found = [
            (HoldFilter.PAUSED, "", int(job.paused), 1),
            (HoldFilter.POD_MIGRATING, job.pod, self.pods[job.pod], 1),
            (HoldFilter.WORKLOAD_UNKNOWN, job.workload, int(unknown), 1),
        ]
        if job.id in held_by_plugins:
            found.append((HoldFilter.PLUGIN, held_by_plugins[job.id], *PLUGIN_COUNT))
        return found

    def _counts(self, job: WaitingJob) -> list[tuple[HoldFilter, str, int, int]]:
        limits, found = self._limits, []
        workload = self._snapshot.workloads.get(job.workload) if job.workload else None
        if workload is not None:
            migrating, unavailable = workload_limits(limits, workload)
            if migrating is not None:
                found.append((HoldFilter.WORKLOAD_MIGRATING, job.workload, self.workloads[job.workload], migrating))
            if unavailable is not None:
                disrupted = self.disrupted[job.workload]
                others = len(disrupted) - (job.pod in disrupted)
                found.append((HoldFilter.WORKLOAD_UNAVAILABLE, job.workload, others, unavailable))
        per_node = limits.of(SkipGate.MAX_MIGRATING_PER_NODE)
        if per_node is not None and job.node:
            found.append((HoldFilter.NODE, job.node, self.nodes[job.node], per_node))
        per_namespace = limits.of(SkipGate.MAX_MIGRATING_PER_NAMESPACE)
        if per_namespace is not None:
            found.append((HoldFilter.NAMESPACE, job.namespace, self.namespaces[job.namespace], per_namespace))
        globally = limits.of(SkipGate.MAX_MIGRATING_GLOBALLY)
        if globally is not None:
            found.append((HoldFilter.GLOBAL, "", self.total, globally))
        for name in job.budgets:
            budget = self._snapshot.budgets.get(name)
            found.append((HoldFilter.DISRUPTION_BUDGET, name, self.budgets[name], budget.allowed if budget else 0))
        for scope, name in limiter_keys(job):
            bucket = self.bucket(scope, name)
            if bucket is not None:
                burst = self._limits.object_limiters[scope].burst
                found.append((LIMITER_FILTER[scope], name, max(burst - bucket.whole_tokens, 0), burst))
        return found

    def _add(self, job: WaitingJob | ActiveJob, disrupted: str, *, evicted: bool) -> None:
        self.total += 1
        self.pods[job.pod] += 1
        self.namespaces[job.namespace] += 1
        if job.node:
            self.nodes[job.node] += 1
        if job.workload:
            self.workloads[job.workload] += 1
            self.disrupted.setdefault(job.workload, set()).add(disrupted)
        if not evicted:
            self.budgets.update(job.budgets)


LIMITER_FILTER = {
    LimiterScope.WORKLOAD: HoldFilter.WORKLOAD_LIMITER,
    LimiterScope.NAMESPACE: HoldFilter.NAMESPACE_LIMITER,
}


def limiter_keys(job: WaitingJob) -> Sequence[tuple[LimiterScope, str]]:
    """Returns the objects whose limiters a job is counted by."""
    namespace = (LimiterScope.NAMESPACE, job.namespace)
    return ((LimiterScope.WORKLOAD, job.workload), namespace) if job.workload else (namespace,)


def limiter_rate(snapshot: MigrationSnapshot, scope: LimiterScope, name: str) -> float | None:
    """Returns tokens per second of an object; None where nothing limits it."""
    limiter = snapshot.limits.object_limiters.get(scope)
    if limiter is None:
        return None
    if scope is LimiterScope.NAMESPACE:
        return limiter.rate_per_s(scope, 0)
    workload = snapshot.workloads.get(name)
    if workload is None:
        return None
    return limiter.rate_per_s(scope, workload.replicas, snapshot.limits.max_migrating_per_workload)


def workload_limits(limits: MigrationLimits, workload: WorkloadReplicas) -> tuple[int | None, int | None]:
    """Returns how many may migrate and how many may be unavailable; None where the check is switched off.

    The first migration of a workload always passes the first check, so that its limit is 1 where it would be 0.
    """
    migrating: int | None = max(workload_budget(workload.replicas, limits.max_migrating_per_workload), 1)
    unavailable: int | None = workload_budget(workload.replicas, limits.max_unavailable_per_workload)
    if SkipGate.MAX_MIGRATING_PER_WORKLOAD in limits.skip_gates:
        migrating = None
    if SkipGate.MAX_UNAVAILABLE_PER_WORKLOAD in limits.skip_gates:
        unavailable = None
    return migrating, unavailable


def is_refused(snapshot: MigrationSnapshot, job: WaitingJob) -> bool:
    """Whether a job can never be admitted: its workload cannot spare a replica, or its pod cannot be evicted. One of an
    unknown workload may yet."""
    return bool(job.refusal) or _is_last(snapshot, job)


def _is_last(snapshot: MigrationSnapshot, job: WaitingJob) -> bool:
    workload = snapshot.workloads.get(job.workload) if job.workload else None
    if workload is None or not snapshot.limits.checks_expected_replicas:
        return False
    limits = snapshot.limits
    return not can_spare_a_replica(
        workload.replicas, limits.max_migrating_per_workload, limits.max_unavailable_per_workload
    )
