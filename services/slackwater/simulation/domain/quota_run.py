"""Arrivals of a trace through an admission policy: what waits, starts, is taken back, and for how long. Pure.

Decisions are made at most once per control period, when something has changed or a delay of the policy ends. A claim
whose grace is over ends and comes back at once as a new claim with all of its work to do again.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterator, Sequence
from typing import Protocol

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim, end, start
from slackwater.simulation.domain.quota_tally import QuotaTally
from slackwater.traces.arrivals import WorkloadArrival


class AdmissionPolicy(Protocol):
    """What is compared."""

    @property
    def name(self) -> str: ...

    def decide(self, index: ClaimIndex, now_s: float) -> Sequence[QuotaClaim]:
        """Returns the claims that change, in their new states."""
        ...

    def next_change_s(self, index: ClaimIndex, now_s: float) -> float:
        """Returns when it would decide otherwise though nothing happens; infinite if never."""
        ...


class QuotaRun:
    """One policy over all arrivals; `tally` has the result."""

    def __init__(
        self,
        policy: AdmissionPolicy,
        arrivals: Sequence[tuple[WorkloadArrival, str]],
        tally: QuotaTally,
        *,
        period_s: float,
        end_s: float,
        grace_s: float,
    ) -> None:
        """`arrivals` are in order of time, each with its quota. What is still there at `end_s` is cut off."""
        self.policy = policy
        self.tally = tally
        self._arrivals = arrivals
        self._period_s = period_s
        self._end_s = end_s
        self._grace_s = grace_s
        self._index = ClaimIndex()
        self._durations: dict[str, float] = {}
        self._ends: list[tuple[float, str]] = []
        self._evictions: list[tuple[float, str]] = []
        self._reruns: dict[str, int] = {}

    def steps(self) -> Iterator[int]:
        """Runs; yields how many arrivals each step took in."""
        position, now_s = 0, self._arrivals[0][0].at_s if self._arrivals else 0.0
        wakes_s = math.inf
        while (now_s := self._next(position, now_s, wakes_s)) < self._end_s:
            self.tally.advance(now_s, self._index)
            came = position
            while position < len(self._arrivals) and self._arrivals[position][0].at_s <= now_s:
                self._submit(*self._arrivals[position])
                position += 1
            self._finish(now_s)
            for claim in self.policy.decide(self._index, now_s):
                self._change(claim, now_s)
            wakes_s = self.policy.next_change_s(self._index, now_s) if self._index.queued else math.inf
            yield position - came
        self.tally.advance(self._end_s, self._index)
        self.tally.close(self._end_s, self._index)
        yield len(self._arrivals) - position

    def _next(self, position: int, now_s: float, wakes_s: float) -> float:
        """Returns the next moment at which something happens, rounded up to the control period."""
        moments = [wakes_s]
        if position < len(self._arrivals):
            moments.append(self._arrivals[position][0].at_s)
        moments += [heap[0][0] for heap in (self._ends, self._evictions) if heap]
        soonest = min(moments)
        if math.isinf(soonest):
            return self._end_s
        return max(math.ceil(soonest / self._period_s) * self._period_s, now_s)

    def _submit(self, arrival: WorkloadArrival, quota: str) -> None:
        claim = QuotaClaim(
            id=arrival.id,
            quota=quota,
            tier=arrival.tier,
            request=arrival.amounts,
            submitted_s=arrival.at_s,
            priority=arrival.priority,
            grace_s=self._grace_s,
        )
        self._durations[claim.id] = arrival.duration_s
        self._index.put(claim)
        self.tally.submitted(claim)

    def _finish(self, now_s: float) -> None:
        """Ends what has run for its time, then what is over its grace."""
        while self._ends and self._ends[0][0] <= now_s:
            at_s, identity = heapq.heappop(self._ends)
            claim = self._index.by_id.get(identity)
            if claim is not None and claim.holds:
                self._index.put(end(claim, ClaimState.RELEASED, at_s))
                del self._durations[identity]
        while self._evictions and self._evictions[0][0] <= now_s:
            at_s, identity = heapq.heappop(self._evictions)
            claim = self._index.by_id.get(identity)
            if claim is not None and claim.state is ClaimState.RECLAIMING:
                self._index.put(end(claim, ClaimState.RECLAIMED, at_s))
                self.tally.reclaimed(claim, at_s)
                self._come_back(claim, at_s)

    def _come_back(self, claim: QuotaClaim, at_s: float) -> None:
        original = claim.id.partition("~")[0]
        self._reruns[original] = self._reruns.get(original, 0) + 1
        again = QuotaClaim(
            id=f"{original}~{self._reruns[original]}",
            quota=claim.quota,
            tier=claim.tier,
            request=claim.request,
            submitted_s=at_s,
            priority=claim.priority,
            grace_s=claim.grace_s,
            reclaims=self._reruns[original],
        )
        self._durations[again.id] = self._durations.pop(claim.id)
        self._index.put(again)
        self.tally.submitted(again)

    def _change(self, claim: QuotaClaim, now_s: float) -> None:
        match claim.state:
            case ClaimState.ADMITTED:
                claim = start(claim, now_s)
                heapq.heappush(self._ends, (now_s + self._durations[claim.id], claim.id))
                self.tally.started(claim, now_s)
            case ClaimState.RECLAIMING if claim.reclaim is not None:
                heapq.heappush(self._evictions, (claim.reclaim.deadline_s, claim.id))
            case ClaimState.REFUSED:
                self.tally.refused(claim)
        self._index.put(claim)


def quota_of_arrival(arrival: WorkloadArrival, leaves: Container[str]) -> str | None:
    """Returns the quota of an arrival: the narrowest of its groups that is one, or `default`; None if neither is."""
    return next((group for group in (*arrival.groups, "default") if group in leaves), None)
