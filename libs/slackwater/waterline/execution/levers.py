"""CPU and memory as two levers: each lowers the limits of a pod in its own unit, milli-cores or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import ClassVar, Final, Protocol

from slackwater.model.records import record
from slackwater.waterline.actuation.cpu_quota import QuotaChange, amount_of
from slackwater.waterline.actuation.memory_high import (
    MemoryBounds,
    MemoryChange,
    held_bytes,
    pending_bytes,
    releasable_bytes,
    throttle_memory,
)
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import ReleaseLedger, nonzero
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.registry.metric import Metric

NOT_REPORTED: Final = "its agent does not report reclaimable memory"
TOO_LITTLE: Final = "would release less than the smallest change"
AT_FLOOR: Final = "at its floor"


@record(frozen=True, slots=True)
class LimitChange:
    """The limits of one pod that change, of CPU or of memory. `amount`: what a cut releases, or a raise may cost."""

    amount: Decimal
    quotas: tuple[QuotaChange, ...] = ()
    memory: MemoryChange | None = None


class Lever(Protocol):
    """What a pass over the demands of a cycle asks of CPU or memory."""

    kind: ClassVar[ActionKind]
    no_candidates: ClassVar[str]
    """Why a gap stays open without any."""
    used_up: ClassVar[str]
    """Why a gap stays open otherwise."""

    def smallest(self, candidate: Candidate) -> int:
        """Returns the gap below which a write is not worth it."""
        ...

    def cut(self, candidate: Candidate, metric: Metric, gap: Decimal | None) -> LimitChange | str:
        """Returns the change that lowers a pod for a gap, or by a small step (None); or why there is none."""
        ...

    def credits(self, metrics: Iterable[Metric], cut: LimitChange, pod: PodUse) -> dict[str, Decimal]:
        """Returns what a change releases, by metric."""
        ...


@dataclass(frozen=True, slots=True)
class CpuLever:
    """See Lever: quotas, in milli-cores."""

    limits: ActionLimits
    kind: ClassVar[ActionKind] = ActionKind.THROTTLE
    no_candidates: ClassVar[str] = "no pod may be throttled for it"
    used_up: ClassVar[str] = (
        "every pod that may be throttled is at its floor, uses nothing, would release too little or was refused"
    )

    def smallest(self, candidate: Candidate) -> int:
        return self.limits.smallest_milli

    def cut(self, candidate: Candidate, metric: Metric, gap: Decimal | None) -> LimitChange | str:
        pod, bounds = candidate.pod, candidate.throttle
        if bounds is None or metric.throttle is None:
            return _no_quota_change(pod)
        if gap is None:
            bounds = replace(bounds, step_ratio=min(bounds.step_ratio, self.limits.blanket_step_ratio))
        changes = metric.throttle(pod, bounds, gap)
        if not changes:
            return _no_quota_change(pod)
        milli = amount_of(changes)
        return TOO_LITTLE if milli < self.limits.smallest_of_a_pod_milli else LimitChange(milli, changes)

    def credits(self, metrics: Iterable[Metric], cut: LimitChange, pod: PodUse) -> dict[str, Decimal]:
        return nonzero((metric.name, metric.released_by_throttle(pod, cut.amount)) for metric in metrics)


@dataclass(frozen=True, slots=True)
class MemoryLever:
    """See Lever: memory.high, in bytes."""

    limits: ActionLimits
    kind: ClassVar[ActionKind] = ActionKind.THROTTLE_MEMORY
    no_candidates: ClassVar[str] = "no pod's memory may be throttled for it"
    used_up: ClassVar[str] = "every pod whose memory may be throttled gave a step, is at its floor, or was refused"

    def smallest(self, candidate: Candidate) -> int:
        return 0 if candidate.memory is None else candidate.memory.min_change_bytes

    def cut(self, candidate: Candidate, metric: Metric, gap: Decimal | None) -> LimitChange | str:
        pod, bounds = candidate.pod, candidate.memory
        if bounds is None:
            return NOT_REPORTED
        if gap is None:
            bounds = replace(bounds, step_ratio=min(bounds.step_ratio, self.limits.blanket_step_ratio))
        change = throttle_memory(pod, bounds, gap)
        return _no_memory_change(pod, bounds) if change is None else LimitChange(change.amount_bytes, memory=change)

    def credits(self, metrics: Iterable[Metric], cut: LimitChange, pod: PodUse) -> dict[str, Decimal]:
        return memory_credits(metrics, pod, cut.amount)


def memory_credits(metrics: Iterable[Metric], pod: PodUse, amount: Decimal) -> dict[str, Decimal]:
    """Returns what memory taken from a pod releases, by metric."""
    return nonzero((metric.name, metric.released_by_memory(pod, amount)) for metric in metrics)


def credit_pending(ledger: ReleaseLedger, demands: Sequence[Demand], pods: Sequence[PodUse], now: datetime) -> None:
    """Credit what memory limits set a short time ago have still to release."""
    metrics = {demand.metric.name: demand.metric for demand in demands}
    for pod in pods:
        if pod.memory_high_since is not None and (pending := pending_bytes(pod, now)):
            ledger.credit(memory_credits(metrics.values(), pod, pending))


def _no_quota_change(pod: PodUse) -> str:
    used = [container.usage_milli for container in pod.containers]
    if not used or any(usage is None for usage in used):
        return "what it uses was not measured"
    return AT_FLOOR if any(used) else "uses nothing"


def _no_memory_change(pod: PodUse, bounds: MemoryBounds) -> str:
    if held_bytes(pod) is None:
        return NOT_REPORTED if pod.reclaimable_bytes is None else "what it holds was not measured"
    return AT_FLOOR if releasable_bytes(pod, bounds) <= ZERO else TOO_LITTLE
