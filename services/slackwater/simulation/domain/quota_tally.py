"""What a policy did to the arrivals: waiting times, use, what each quota had of what was due to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.tree import Amounts

BUCKETS = 240
"""Points of the pictures."""


@dataclass(slots=True)
class QuotaFigures:
    """One quota under one policy. Hours are of resources, by name."""

    claims: int = 0
    """Of the trace; a claim that comes back after a reclaim is none of its own."""
    started: int = 0
    refused: int = 0
    waiting: int = 0
    """Never started by the end of the trace."""
    reclaims: int = 0
    waits_s: list[float] = field(default_factory=list)
    """From each arrival of a claim to its first start; to the end of the trace if it never did."""
    used_unit_seconds: dict[str, float] = field(default_factory=dict)
    lost_unit_seconds: dict[str, float] = field(default_factory=dict)
    """Of `used`: work of claims that were reclaimed."""
    due: float = 0.0
    """Requested up to its fair share, over time, as a share of the pool."""
    had: float = 0.0
    """Of what was due."""
    series_used: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)
    series_queued: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)
    """By time: mean share of the pool in its dominant resource."""


class QuotaTally:
    """Sums over time, between the changes."""

    def __init__(self, quotas: Sequence[str], fair: Mapping[str, Amounts], total: Amounts, span: tuple[float, float]):
        self.by_quota: dict[str, QuotaFigures] = {quota: QuotaFigures() for quota in quotas}
        self.total = total
        self.span_s = span
        self._fair = fair
        self._at_s = span[0]
        self._open: dict[str, float] = {}

    def submitted(self, claim: QuotaClaim) -> None:
        if "~" not in claim.id:
            self.by_quota[claim.quota].claims += 1
            self._open[claim.id] = claim.submitted_s

    def started(self, claim: QuotaClaim, now_s: float) -> None:
        submitted_s = self._open.pop(claim.id, None)
        if submitted_s is not None:
            figures = self.by_quota[claim.quota]
            figures.started += 1
            figures.waits_s.append(now_s - submitted_s)

    def refused(self, claim: QuotaClaim) -> None:
        if self._open.pop(claim.id, None) is not None:
            self.by_quota[claim.quota].refused += 1

    def reclaimed(self, claim: QuotaClaim, at_s: float) -> None:
        figures = self.by_quota[claim.quota]
        figures.reclaims += 1
        ran_s = at_s - (claim.started_s if claim.started_s is not None else at_s)
        for resource, amount in claim.admitted.items():
            figures.lost_unit_seconds[resource] = figures.lost_unit_seconds.get(resource, 0.0) + amount * ran_s

    def advance(self, now_s: float, index: ClaimIndex) -> None:
        """Count what has been used and queued since the last change."""
        seconds = now_s - self._at_s
        if seconds <= 0:
            return
        for quota, figures in self.by_quota.items():
            used, requested = index.used.get(quota, {}), index.requested.get(quota, {})
            if not any(requested.values()):
                continue
            queued = 0.0
            held = 0.0
            for resource, whole in self.total.items():
                if whole <= 0:
                    continue
                use, request = used.get(resource, 0), requested.get(resource, 0)
                figures.used_unit_seconds[resource] = figures.used_unit_seconds.get(resource, 0.0) + use * seconds
                due = min(request, self._fair[quota].get(resource, whole))
                figures.due += due * seconds / whole
                figures.had += min(use, due) * seconds / whole
                held, queued = max(held, use / whole), max(queued, (request - use) / whole)
            self._draw(figures, now_s, held, queued)
        self._at_s = now_s

    def close(self, end_s: float, index: ClaimIndex) -> None:
        """Count what has never started as waiting until the end."""
        for identity, submitted_s in self._open.items():
            claim = index.by_id.get(identity)
            if claim is not None:
                figures = self.by_quota[claim.quota]
                figures.waiting += 1
                figures.waits_s.append(end_s - submitted_s)

    def _draw(self, figures: QuotaFigures, now_s: float, held: float, queued: float) -> None:
        """Spread the interval over the points that it covers."""
        begin_s, end_s = self.span_s
        width_s = (end_s - begin_s) / BUCKETS
        at_s = self._at_s
        while at_s < now_s:
            place = min(int((at_s - begin_s) / width_s), BUCKETS - 1)
            until_s = now_s if place == BUCKETS - 1 else min(begin_s + (place + 1) * width_s, now_s)
            if until_s <= at_s:
                break
            figures.series_used[place] += held * (until_s - at_s) / width_s
            figures.series_queued[place] += queued * (until_s - at_s) / width_s
            at_s = until_s


def jain_index(shares: Sequence[float]) -> float | None:
    """Returns Jain's fairness index: 1 if all are equal, 1/n if one has everything; None without any.

    Source: Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Returns the smallest value that at least `share` of the values do not exceed; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * round(share * 1000) // 1000) - 1, 0)]
