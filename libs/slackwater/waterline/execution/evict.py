"""Evicts as few pods as close the gaps, in order. Every metric is credited, for successful
evictions only. Evictions that are not accepted yet are credited nothing; no other pod is chosen for
what they would release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from slackwater.waterline.analysis.demands import ActionKind, Candidate, Demand
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import AWAITED, CLOSED, ReleaseLedger, Remaining, Spared, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import PodUse

Attempt = Callable[[PodUse], str | None]
"""Begins an eviction; returns the reason if it was refused. Without one, planned evictions count as
begun.
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many evictions may begin in this cycle, and the reason once they are used up. None: no
    bound.
    """

    count: int | None
    because: str


@dataclass(frozen=True, slots=True)
class _Choice:
    demand: Demand
    candidate: Candidate


class _Levels:
    """The gaps of one demand by pod. A pod that can help with a smaller gap is not evicted for a
    larger one. An unquantified demand has no gap and keeps only the pods it chose itself.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._own = {candidate.pod.uid: candidate.gap or ZERO for candidate in demand.candidates}
        self._all = frozenset(self._own.values())

    def does_without(self, uid: str, credited: Mapping[str, Decimal], ledger: ReleaseLedger) -> bool:
        """Returns whether the gaps that this pod helps with are closed without it, and no other pod
        would have to be evicted instead.
        """
        released = ledger.released(self._demand)
        amount = credited.get(self._demand.metric.name, ZERO)
        left = released - amount
        if amount and left < self._own.get(uid, ZERO):
            return False
        return not any(left < gap <= released for gap in self._all)


class EvictionPass:
    """The eviction demands of one cycle. `underway` are evictions already begun: an unquantified
    demand waits for their effect before it requests more. `awaited` is what those of them release
    that are not accepted yet.
    """

    def __init__(
        self,
        demands: Sequence[Demand],
        refused: Mapping[str, str],
        budget: Budget,
        limits: ActionLimits,
        *,
        taken: Mapping[str, Decimal] | None = None,
        underway: int = 0,
        awaited: ReleaseLedger | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.spared: list[Spared] = []
        self.refused_now: dict[str, str] = {}
        self._demands = demands
        self._refused = dict(refused)
        self._budget = budget
        self._blanket = max(0, limits.blanket_evictions - underway)
        self._taken = dict(taken or {})
        self._awaited = awaited or ReleaseLedger()
        self._begun: set[str] = set()
        self._metrics = [demand.metric for demand in demands]
        self._known: dict[str, dict[str, Decimal]] = {}

    def run(self, ledger: ReleaseLedger, attempt: Attempt | None = None) -> tuple[Remaining, ...]:
        """Choose as if every eviction succeeded; begin in order; after a refusal choose again among
        the others.
        """
        choices = self._choose(ledger)
        while choices:
            refused = False
            for choice in choices:
                why = None if attempt is None else attempt(choice.candidate.pod)
                if why is not None:
                    self._refused[choice.candidate.pod.uid] = self.refused_now[choice.candidate.pod.uid] = why
                    refused = True
                    break
                self._begin(choice, ledger)
            choices = self._choose(ledger) if refused else []
        self._record_spared(ledger)
        return tuple(self._remaining(demand, ledger) for demand in self._demands)

    # ---- choosing

    def _choose(self, ledger: ReleaseLedger) -> list[_Choice]:
        """Returns the pods to evict. Evictions for unquantified metrics happen in any case, so they
        are credited to the others first. The budget cuts off the end of the needed pods, so that no
        eviction begins that a later cycle would find unnecessary.
        """
        trial, chosen, blanket = ledger.with_those_of(self._awaited), dict[str, _Choice](), self._blanket
        for demand in sorted(self._demands, key=lambda demand: demand.gap is not None):
            for candidate in demand.candidates:
                if blanket <= 0 if demand.gap is None else trial.is_closed(demand):
                    break
                if self._is_wanted(demand, candidate, trial, chosen):
                    chosen[candidate.pod.uid] = _Choice(demand, candidate)
                    trial.credit(self._credited(candidate.pod))
                    blanket -= demand.gap is None
        room = None if self._budget.count is None else self._budget.count - len(self._begun)
        return self._without_needless(list(chosen.values()), trial)[:room]

    def _is_wanted(
        self, demand: Demand, candidate: Candidate, trial: ReleaseLedger, chosen: Mapping[str, _Choice]
    ) -> bool:
        pod = candidate.pod
        if pod.uid in chosen or pod.uid in self._begun or pod.uid in self._refused:
            return False
        if demand.metric.refused_by(pod) is not None:
            return False
        if demand.gap is None:
            return True
        return trial.left_for(candidate, demand) > 0 and demand.metric.name in self._credited(pod)

    def _without_needless(self, chosen: list[_Choice], trial: ReleaseLedger) -> list[_Choice]:
        """Returns the choices without early small ones that later choices make unnecessary; checked
        from the last chosen.
        """
        if len(chosen) < 2:
            return chosen
        levels = [_Levels(demand) for demand in self._demands if demand.gap is not None]
        kept = list(chosen)
        for choice in reversed(chosen):
            pod = choice.candidate.pod
            credited = self._credited(pod)
            if choice.demand.gap is not None and all(level.does_without(pod.uid, credited, trial) for level in levels):
                kept.remove(choice)
                trial.credit(credited, sign=-1)
        return kept

    def _credited(self, pod: PodUse) -> dict[str, Decimal]:
        """Returns what its end releases, less what a throttle of this cycle already released."""
        known = self._known.get(pod.uid)
        if known is None:
            taken = self._taken.get(pod.uid)
            known = {}
            for metric in self._metrics:
                amount = metric.released_by_eviction(pod)
                if taken is not None:
                    amount -= metric.released_by_throttle(pod, taken)
                if amount > 0:
                    known[metric.name] = amount
            self._known[pod.uid] = known
        return known

    # ---- doing and telling

    def _begin(self, choice: _Choice, ledger: ReleaseLedger) -> None:
        pod, metric = choice.candidate.pod, choice.demand.metric
        credited = self._credited(pod)
        ledger.credit(credited)
        self._begun.add(pod.uid)
        self._blanket -= choice.demand.gap is None
        self.steps.append(
            Step(
                ActionKind.EVICT,
                pod.uid,
                pod.name,
                metric.name,
                choice.candidate.keys,
                tuple(credited.items()),
                grace_seconds=choice.candidate.grace_seconds,
            )
        )

    def _record_spared(self, ledger: ReleaseLedger) -> None:
        recorded = set(self._begun)
        expected = ledger.with_those_of(self._awaited)
        for demand in self._demands:
            is_closed = ledger.is_closed(demand)
            for candidate in demand.candidates:
                pod = candidate.pod
                if pod.uid not in recorded:
                    recorded.add(pod.uid)
                    because = self._why_spared(demand, candidate, ledger, expected, is_closed=is_closed)
                    self.spared.append(Spared(ActionKind.EVICT, pod.uid, pod.name, because))

    def _why_spared(
        self, demand: Demand, candidate: Candidate, ledger: ReleaseLedger, expected: ReleaseLedger, *, is_closed: bool
    ) -> str:
        if candidate.pod.uid in self._refused:
            return self._refused[candidate.pod.uid]
        refusal = demand.metric.refused_by(candidate.pod)
        if refusal is not None:
            return refusal
        if demand.gap is None:
            return demand.because
        if is_closed or ledger.left_for(candidate, demand) <= ZERO:
            return CLOSED
        if expected.left_for(candidate, demand) <= ZERO:
            return AWAITED
        if demand.metric.name not in self._credited(candidate.pod):
            return "it would release nothing that was measured"
        return self._budget.because

    def _remaining(self, demand: Demand, ledger: ReleaseLedger) -> Remaining:
        done = ledger.released(demand)
        if demand.gap is None:
            return Remaining(ActionKind.EVICT, demand.metric.name, None, done, None, demand.because)
        left = ledger.open(demand)
        return Remaining(
            ActionKind.EVICT, demand.metric.name, demand.gap, done, left, self._why_open(demand, left, ledger)
        )

    def _why_open(self, demand: Demand, left: Decimal, ledger: ReleaseLedger) -> str:
        if left <= 0:
            return ""
        if ledger.with_those_of(self._awaited).is_closed(demand):
            return AWAITED
        if self._budget.count is not None and len(self._begun) >= self._budget.count:
            return self._budget.because
        if not demand.candidates:
            return "no pod may be evicted for it"
        return "every pod that may be evicted was, releases nothing or was refused"
