"""Lowers quotas: sorted candidates, one pass, ends when the gap is closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from slackwater.waterline.actuation.cpu_quota import QuotaChange, amount_of
from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import CLOSED, ReleaseLedger, Remaining, Spared, Step, nonzero
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import PodUse

NOT_WORTH_IT: Final = "what is left of the gap is not worth a write"


class ThrottlePass:
    """One pass over the throttle demands of a cycle. Each pod is cut once, for the largest gap that
    any demand has for it.
    """

    def __init__(self, demands: Sequence[Demand], refused: dict[str, str], limits: ActionLimits) -> None:
        self.steps: list[Step] = []
        self.spared: list[Spared] = []
        self._demands = demands
        self._refused = refused
        self._limits = limits
        self._asked: set[str] = set()
        self._blankets = 0
        self._of: dict[str, dict[str, Candidate]] = {
            demand.metric.name: {candidate.pod.uid: candidate for candidate in demand.candidates}
            for demand in demands
            if len(demands) > 1
        }

    def run(self, ledger: ReleaseLedger) -> tuple[Remaining, ...]:
        """Returns the remaining gaps. Unquantified demands come last, so that their small step does
        not replace a measured cut.
        """
        return tuple(
            self._work_off(demand, ledger) for demand in sorted(self._demands, key=lambda demand: demand.gap is None)
        )

    def _work_off(self, demand: Demand, ledger: ReleaseLedger) -> Remaining:
        if demand.gap is None:
            return self._blanket(demand, ledger)
        is_closed = ledger.is_closed(demand)
        for candidate in demand.candidates:
            left = ZERO if is_closed else ledger.left_for(candidate, demand)
            if left <= ZERO or left < self._limits.smallest_milli:
                self._spare(candidate.pod, CLOSED if left <= ZERO else NOT_WORTH_IT)
            elif self._ask(demand, candidate, ledger):
                is_closed = ledger.is_closed(demand)
        left = ledger.open(demand)
        why = "" if left <= 0 else self._why_open(demand, left)
        return Remaining(ActionKind.THROTTLE, demand.metric.name, demand.gap, ledger.released(demand), left, why)

    def _ask(self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger) -> bool:
        pod = candidate.pod
        if pod.uid in self._asked:
            return False
        if pod.uid in self._refused:
            self._spare(pod, self._refused[pod.uid])
            return False
        gap = self._largest_gap(demand, candidate, ledger) if demand.gap is not None else None
        changes = self._cut(demand, candidate, gap)
        milli = amount_of(changes)
        if not changes or milli < self._limits.smallest_of_a_pod_milli:
            self._spare(pod, _why_nothing(pod) if not changes else "would release less than the smallest change")
            return False
        self._asked.add(pod.uid)
        credited = nonzero(
            [(demand.metric.name, demand.metric.released_by_throttle(pod, milli)) for demand in self._demands]
        )
        ledger.credit(credited)
        self.steps.append(
            Step(
                ActionKind.THROTTLE,
                pod.uid,
                pod.name,
                demand.metric.name,
                candidate.keys,
                tuple(credited.items()),
                changes,
            )
        )
        return True

    def _largest_gap(self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger) -> Decimal:
        """Returns the largest gap over all demands that this pod may help with."""
        if len(self._demands) == 1:
            return ledger.left_for(candidate, demand)
        return max(
            ledger.left_for(its, demand)
            for demand in self._demands
            if (its := self._of[demand.metric.name].get(candidate.pod.uid)) is not None
        )

    def _cut(self, demand: Demand, candidate: Candidate, gap: Decimal | None) -> tuple[QuotaChange, ...]:
        if candidate.throttle is None or demand.metric.throttle is None:
            return ()
        bounds = candidate.throttle
        if gap is None:
            bounds = replace(bounds, step_ratio=min(bounds.step_ratio, self._limits.blanket_step_ratio))
        return demand.metric.throttle(candidate.pod, bounds, gap)

    def _blanket(self, demand: Demand, ledger: ReleaseLedger) -> Remaining:
        """Throttle a few pods by a small step for all unquantified metrics together, and record the
        reason: the needed amount is unknown.
        """
        most = self._limits.blanket_throttles
        for candidate in demand.candidates:
            if self._blankets >= most:
                self._spare(candidate.pod, f"{demand.because}: {most} pods in a cycle are as many as may be")
            else:
                self._blankets += self._ask(demand, candidate, ledger)
        return Remaining(ActionKind.THROTTLE, demand.metric.name, None, ledger.released(demand), None, demand.because)

    def _why_open(self, demand: Demand, left: Decimal) -> str:
        if not demand.candidates:
            return "no pod may be throttled for it"
        if left < self._limits.smallest_milli:
            return NOT_WORTH_IT
        return "every pod that may be throttled is at its floor, uses nothing, would release too little or was refused"

    def _spare(self, pod: PodUse, because: str) -> None:
        self.spared.append(Spared(ActionKind.THROTTLE, pod.uid, pod.name, because))


def _why_nothing(pod: PodUse) -> str:
    used = [container.usage_milli for container in pod.containers]
    if not used or any(one is None for one in used):
        return "what it uses was not measured"
    return "at its floor" if any(used) else "uses nothing"
