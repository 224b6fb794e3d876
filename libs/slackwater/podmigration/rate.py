"""Token buckets: the object limiter of workloads and namespaces, and the rate-limited queue of admitted jobs.

The object limiter admits `max_migrating` moves of an object per window: a bucket of `burst` tokens that refills at
max_migrating / window_s. A token is spent at admission and never checked again, so that a job's own token cannot block
the job (koordinator checks at each reconcile, and pods that keep their name block themselves).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from slackwater.model.records import record
from slackwater.podmigration.budgets import IntOrPercent, workload_budget

_EPSILON = 1e-9
"""Refills are sums of floats; a token that is short by less than this is whole."""


class LimiterScope(StrEnum):
    """What an object limiter counts by."""

    WORKLOAD = "workload"
    NAMESPACE = "namespace"


@record(frozen=True, slots=True)
class ObjectLimiter:
    """At most `max_migrating` moves per window, `burst` at once. A window of 0 switches it off."""

    window_s: float
    max_migrating: IntOrPercent | None = None
    """None: the budget of the workload. A namespace has no size, so only a count limits it."""
    burst: int = 1

    def rate_per_s(self, scope: LimiterScope, replicas: int, fallback: IntOrPercent | None = None) -> float | None:
        """Returns tokens per second; None where nothing is limited. Raises InvalidAmountError."""
        if self.window_s <= 0:
            return None
        if scope is LimiterScope.NAMESPACE:
            whole = isinstance(self.max_migrating, int) and self.max_migrating > 0
            return self.max_migrating / self.window_s if whole else None  # type: ignore[operator]
        count = workload_budget(replicas, fallback if self.max_migrating is None else self.max_migrating)
        return count / self.window_s if count > 0 else None


@record(frozen=True, slots=True)
class LimiterBucket:
    """Tokens at a time; refilled when read."""

    tokens: float
    at_s: float

    def refilled(self, now_s: float, rate_per_s: float, burst: float) -> LimiterBucket:
        """Returns the bucket now. A clock that goes back adds nothing, and the next token is counted from it: a bucket
        that a clock ahead has filled would give none until time has passed that."""
        elapsed_s = max(now_s - self.at_s, 0.0)
        return LimiterBucket(min(self.tokens + elapsed_s * rate_per_s, burst), now_s)

    @property
    def whole_tokens(self) -> int:
        """Tokens that can be spent now."""
        return max(int(self.tokens + _EPSILON), 0)

    def spent(self, count: int = 1) -> LimiterBucket:
        """Returns the bucket with `count` tokens less; below 0 where more were spent than it had."""
        return replace(self, tokens=self.tokens - count)


@record(frozen=True, slots=True)
class MigrationQueue:
    """Admitted jobs in rank order, that start at `process_queue_qps`."""

    jobs: Sequence[str] = ()
    bucket: LimiterBucket = LimiterBucket(1.0, 0.0)

    def enqueue(self, jobs: Sequence[str]) -> MigrationQueue:
        """Returns the queue with jobs behind it; one that is queued keeps its place."""
        queued = set(self.jobs)
        return replace(self, jobs=(*self.jobs, *(job for job in jobs if job not in queued)))

    def dequeue(self, now_s: float, process_queue_qps: float) -> tuple[Sequence[str], MigrationQueue]:
        """Returns the jobs that start now, and the queue without them. At most one second's worth starts at once."""
        if process_queue_qps <= 0:
            return (), self
        bucket = self.bucket.refilled(now_s, process_queue_qps, max(process_queue_qps, 1.0))
        count = min(bucket.whole_tokens, len(self.jobs))
        return self.jobs[:count], MigrationQueue(self.jobs[count:], bucket.spent(count))
