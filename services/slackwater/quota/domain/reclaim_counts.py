"""How often claims of a workload were reclaimed lately: the more often, the later a new one may borrow. Times are
handed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.model.records import record

COUNTED_S: Final = 7200.0
"""Reclaims are forgotten so long after the last one: longer than the longest backoff of the default settings."""
MOST_COUNTED: Final = 200
"""Workloads of one tree; the latest reclaims are kept, because the tree's row is written with every change."""


@record(frozen=True, slots=True)
class ReclaimCount:
    """Of one workload."""

    times: int
    last_s: float


def count_reclaims(
    counts: Mapping[str, ReclaimCount], changed: Iterable[QuotaClaim], now_s: float
) -> Mapping[str, ReclaimCount]:
    """Returns the counts after these claims have changed; the same where no claim of a workload was reclaimed.

    A reclaim counts once more than the claim knew when it was submitted, so that claims of one workload that are
    reclaimed together count once.
    """
    reclaimed = [claim for claim in changed if claim.workload and claim.state is ClaimState.RECLAIMED]
    if not reclaimed:
        return counts
    recent = {workload: count for workload, count in counts.items() if now_s - count.last_s < COUNTED_S}
    for claim in reclaimed:
        before = recent.get(claim.workload)
        recent[claim.workload] = ReclaimCount(max(claim.reclaims + 1, 0 if before is None else before.times), now_s)
    newest = sorted(recent, key=lambda workload: (-recent[workload].last_s, workload))[:MOST_COUNTED]
    return {workload: recent[workload] for workload in sorted(newest)}


def with_reclaims(claim: QuotaClaim, counts: Mapping[str, ReclaimCount], now_s: float) -> QuotaClaim:
    """Returns a claim that is new with the reclaims of its workload."""
    count = counts.get(claim.workload) if claim.workload else None
    return claim if count is None or now_s - count.last_s >= COUNTED_S else replace(claim, reclaims=count.times)
