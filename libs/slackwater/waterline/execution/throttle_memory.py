"""Lowers and raises memory limits: sorted candidates, one pass, exactly as far as the gap or the headroom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from slackwater.waterline.actuation.memory_high import (
    MemoryBounds,
    MemoryChange,
    held_bytes,
    pending_bytes,
    releasable_bytes,
    restore_memory,
    throttle_memory,
)
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.analysis.memory_demands import RestorableMemory
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import CLOSED, ReleaseLedger, Remaining, Spared, Step, nonzero
from slackwater.waterline.execution.throttle import NOT_WORTH_IT
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import MEMORY, ComparatorChain
from slackwater.waterline.registry.metric import Metric

NOT_REPORTED: Final = "its agent does not report reclaimable memory"
THROTTLED_FIRST: Final = "memory is throttled first"


class MemoryPass:
    """One pass over the memory demands of a cycle. Each pod is cut once, for the largest gap that any demand has."""

    def __init__(self, demands: Sequence[Demand], refused: Mapping[str, str], limits: ActionLimits) -> None:
        self.steps: list[Step] = []
        self.spared: list[Spared] = []
        self._demands = demands
        self._refused = refused
        self._limits = limits
        self._asked: set[str] = set()
        self._blankets = 0
        self._of = [{candidate.pod.uid: candidate for candidate in demand.candidates} for demand in demands]

    def run(self, ledger: ReleaseLedger) -> tuple[Remaining, ...]:
        """Returns the remaining gaps. Unquantified demands come last, as with CPU."""
        return tuple(
            self._work_off(demand, ledger) for demand in sorted(self._demands, key=lambda demand: demand.gap is None)
        )

    def _work_off(self, demand: Demand, ledger: ReleaseLedger) -> Remaining:
        for candidate in demand.candidates:
            because = self._why_not(demand, candidate, ledger)
            if because:
                self.spared.append(Spared(demand.kind, candidate.pod.uid, candidate.pod.name, because))
        done = ledger.released(demand)
        if demand.gap is None:
            return Remaining(demand.kind, demand.metric.name, None, done, None, demand.because)
        left = ledger.open(demand)
        return Remaining(demand.kind, demand.metric.name, demand.gap, done, left, self._why_open(demand, left))

    def _why_not(self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger) -> str:
        """Throttle the pod, or return why not. Empty: it is throttled in this cycle."""
        pod, bounds = candidate.pod, candidate.memory
        if pod.uid in self._asked:
            return ""
        if bounds is None or pod.uid in self._refused:
            return self._refused.get(pod.uid, NOT_REPORTED)
        if demand.gap is None:
            return self._blanket(demand, candidate, bounds, ledger)
        left = ledger.left_for(candidate, demand)
        if left < bounds.min_change_bytes:
            return CLOSED if left <= 0 else NOT_WORTH_IT
        return self._cut(demand, candidate, bounds, self._largest_gap(pod, ledger), ledger)

    def _largest_gap(self, pod: PodUse, ledger: ReleaseLedger) -> Decimal:
        """Returns the largest open gap over all demands that this pod may help with."""
        gaps = (
            ledger.left_for(candidates[pod.uid], demand)
            for demand, candidates in zip(self._demands, self._of, strict=True)
            if pod.uid in candidates
        )
        return max(gaps, default=ZERO)

    def _blanket(self, demand: Demand, candidate: Candidate, bounds: MemoryBounds, ledger: ReleaseLedger) -> str:
        most = self._limits.blanket_throttles
        if self._blankets >= most:
            return f"{demand.because}: {most} pods in a cycle are as many as may be"
        small = replace(bounds, step_ratio=min(bounds.step_ratio, self._limits.blanket_step_ratio))
        because = self._cut(demand, candidate, small, None, ledger)
        self._blankets += not because
        return because

    def _cut(
        self, demand: Demand, candidate: Candidate, bounds: MemoryBounds, gap: Decimal | None, ledger: ReleaseLedger
    ) -> str:
        pod = candidate.pod
        change = throttle_memory(pod, bounds, gap)
        if change is None:
            return _why_nothing(pod, bounds)
        self._asked.add(pod.uid)
        credited = memory_credits([demand.metric for demand in self._demands], pod, change.amount_bytes)
        if demand.gap is None:
            credited.setdefault(demand.metric.name, change.amount_bytes)
        ledger.credit(credited)
        self.steps.append(
            Step(
                demand.kind,
                pod.uid,
                pod.name,
                demand.metric.name,
                candidate.keys,
                tuple(credited.items()),
                memory=change,
            )
        )
        return ""

    def _why_open(self, demand: Demand, left: Decimal) -> str:
        if left <= 0:
            return ""
        if not demand.candidates:
            return "no pod's memory may be throttled for it"
        smallest = min(
            candidate.memory.min_change_bytes for candidate in demand.candidates if candidate.memory is not None
        )
        if left < smallest:
            return NOT_WORTH_IT
        return "every pod whose memory may be throttled gave a step, is at its floor, or was refused"


def memory_credits(metrics: Iterable[Metric], pod: PodUse, amount: Decimal) -> dict[str, Decimal]:
    """Returns what memory taken from a pod releases, by metric."""
    return nonzero((metric.name, metric.released_by_memory(pod, amount)) for metric in metrics)


def credit_pending(ledger: ReleaseLedger, demands: Sequence[Demand], pods: Sequence[PodUse], now: datetime) -> None:
    """Credit what limits set a short time ago have still to release."""
    metrics = {demand.metric.name: demand.metric for demand in demands}
    for pod in pods:
        if pod.memory_high_since is not None and (pending := pending_bytes(pod, now)):
            ledger.credit(memory_credits(metrics.values(), pod, pending))


def restore_memory_limits(
    restorable: Sequence[RestorableMemory],
    refused: Mapping[str, str],
    capacity_bytes: int | None,
    chain: ComparatorChain = MEMORY,
) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
    """Returns the raises of one cycle: the last throttled pod first. Headroom given to one pod is not available to the
    others.
    """
    by_uid = {one.pod.uid: one for one in restorable}
    given, steps, spared = ZERO, [], []
    for keys, pod in reversed(chain.ranked(one.pod for one in restorable)):
        one = by_uid[pod.uid]
        left = None if one.headroom is None else max(ZERO, one.headroom - given)
        free = None if one.free is None else max(ZERO, one.free - given)
        change = None if pod.uid in refused else _raise(one, left, free, capacity_bytes)
        if change is None:
            because = refused.get(pod.uid, "the headroom is too small for its limit to rise")
            spared.append(Spared(ActionKind.RESTORE_MEMORY, pod.uid, pod.name, because))
            continue
        given += change.amount_bytes
        cost = (("memory", change.amount_bytes),)
        steps.append(Step(ActionKind.RESTORE_MEMORY, pod.uid, pod.name, "", keys, cost, memory=change))
    return tuple(steps), tuple(spared)


def _raise(
    memory: RestorableMemory, left: Decimal | None, free: Decimal | None, capacity_bytes: int | None
) -> MemoryChange | None:
    pod = memory.pod
    if not memory.is_covered and pod.memory_high_bytes is not None:
        return MemoryChange(pod.uid, pod.memory_high_bytes, pod.original_memory_high_bytes, ZERO)
    return restore_memory(pod, memory.bounds, left, capacity_bytes, free)


def _why_nothing(pod: PodUse, bounds: MemoryBounds) -> str:
    if held_bytes(pod) is None:
        return NOT_REPORTED if pod.reclaimable_bytes is None else "what it holds was not measured"
    if releasable_bytes(pod, bounds) <= 0:
        return "at its floor"
    return "would release less than the smallest change"
