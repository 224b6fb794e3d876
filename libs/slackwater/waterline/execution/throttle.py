"""Lowers limits of CPU or memory: sorted candidates, one pass, ends when the gap is closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from slackwater.waterline.analysis.demands import Candidate, Demand
from slackwater.waterline.execution.levers import Lever, LimitChange
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import CLOSED, ReleaseLedger, Remaining, Spared, Step
from slackwater.waterline.facts.amounts import ZERO

NOT_WORTH_IT: Final = "what is left of the gap is not worth a write"


class ThrottlePass:
    """One pass over the demands of a cycle on one lever. Each pod is cut once, for the largest gap that any demand has
    for it.
    """

    def __init__(
        self, lever: Lever, demands: Sequence[Demand], refused: Mapping[str, str], limits: ActionLimits
    ) -> None:
        self.steps: list[Step] = []
        self.spared: list[Spared] = []
        self._lever = lever
        self._demands = demands
        self._metrics = [demand.metric for demand in demands]
        self._refused = refused
        self._most_blankets = limits.blanket_throttles
        self._blankets = 0
        self._cut_uids: set[str] = set()
        self._candidates = [
            {candidate.pod.uid: candidate for candidate in demand.candidates}
            for demand in (demands if len(demands) > 1 else ())
        ]

    def run(self, ledger: ReleaseLedger) -> tuple[Remaining, ...]:
        """Returns the remaining gaps. Unquantified demands come last, so that their small step does not replace a
        measured cut.
        """
        return tuple(
            self._work_off(demand, ledger) for demand in sorted(self._demands, key=lambda demand: demand.gap is None)
        )

    def _work_off(self, demand: Demand, ledger: ReleaseLedger) -> Remaining:
        kind, metric = self._lever.kind, demand.metric.name
        is_closed = ledger.is_closed(demand)
        for candidate in demand.candidates:
            pod = candidate.pod
            if pod.uid in self._cut_uids:
                continue
            because = CLOSED if is_closed else self._cut(demand, candidate, ledger)
            if because:
                self.spared.append(Spared(kind, pod.uid, pod.name, because))
            else:
                is_closed = ledger.is_closed(demand)
        released = ledger.released(demand)
        if demand.gap is None:
            return Remaining(kind, metric, None, released, None, demand.because)
        left = ledger.open(demand)
        return Remaining(kind, metric, demand.gap, released, left, self._why_open(demand, left))

    def _cut(self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger) -> str:
        """Lower the limits of a pod, or return why not."""
        pod = candidate.pod
        if demand.gap is None and self._blankets >= self._most_blankets:
            return f"{demand.because}: {self._most_blankets} pods in a cycle are as many as may be"
        if demand.gap is not None:
            left = ledger.left_for(candidate, demand)
            if left <= ZERO:
                return CLOSED
            if left < self._lever.smallest(candidate):
                return NOT_WORTH_IT
        if pod.uid in self._refused:
            return self._refused[pod.uid]
        gap = None if demand.gap is None else self._largest_gap(demand, candidate, ledger)
        cut = self._lever.cut(candidate, demand.metric, gap)
        if isinstance(cut, str):
            return cut
        self._blankets += demand.gap is None
        self._record_cut(demand, candidate, cut, ledger)
        return ""

    def _record_cut(self, demand: Demand, candidate: Candidate, cut: LimitChange, ledger: ReleaseLedger) -> None:
        pod = candidate.pod
        self._cut_uids.add(pod.uid)
        credited = self._lever.credits(self._metrics, cut, pod)
        if demand.gap is None and cut.memory is not None:
            credited.setdefault(demand.metric.name, cut.amount)
        ledger.credit(credited)
        self.steps.append(
            Step(
                self._lever.kind,
                pod.uid,
                pod.name,
                demand.metric.name,
                candidate.keys,
                tuple(credited.items()),
                cut.quotas,
                memory=cut.memory,
            )
        )

    def _largest_gap(self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger) -> Decimal:
        """Returns the largest gap over all demands that this pod may help with."""
        if not self._candidates:
            return ledger.left_for(candidate, demand)
        return max(
            ledger.left_for(of_other, other)
            for other, candidates in zip(self._demands, self._candidates, strict=True)
            if (of_other := candidates.get(candidate.pod.uid)) is not None
        )

    def _why_open(self, demand: Demand, left: Decimal) -> str:
        if left <= ZERO:
            return ""
        if not demand.candidates:
            return self._lever.no_candidates
        if left < min(self._lever.smallest(candidate) for candidate in demand.candidates):
            return NOT_WORTH_IT
        return self._lever.used_up
