"""When a queued claim may start: quantiles of how long its quota took in the past to release as much as it waits for.

For each moment at which the quota released something, the time until the releases after it sum up to the amount. A
moment after which that has not happened yet counts as longer than what has been seen, so that a quota that slows down
is not estimated by its fast past alone. The estimate is checked by its own hit rate: of the claims that were estimated,
the share that started within each quantile; 0.5 and 0.9 if it is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record

LEAST_SAMPLES = 8
"""Fewer moments say nothing about a p90."""
LONGEST_HISTORY = 500
"""Releases that are used, the latest."""


@record(frozen=True, slots=True)
class QuotaRelease:
    """What a quota became free of at one moment."""

    at_s: float
    amounts: Amounts


@record(frozen=True, slots=True)
class StartEstimate:
    """Seconds from now; None where the quota's past does not reach so far."""

    p50_s: float | None
    p90_s: float | None
    samples: int


@record(frozen=True, slots=True)
class EstimateOutcome:
    """An estimate and what came of it, for claims that have started."""

    estimate: StartEstimate
    waited_s: float
    """From the estimate to the start."""


@record(frozen=True, slots=True)
class EstimateHitRate:
    """Of the estimates that had the quantile: the share of starts within it; None without any."""

    p50: float | None
    p90: float | None
    outcomes: int


def estimate_start(releases: Sequence[QuotaRelease], needed: Amounts, now_s: float) -> StartEstimate | None:
    """Returns the estimate for a claim that starts once `needed` is released; None with too short a past.

    `needed` is what the claims before it and the claim itself request, less what the quota has free now; amounts of 0
    or less are not waited for. `releases` are in any order.
    """
    wanted = {resource: amount for resource, amount in needed.items() if amount > 0}
    if not wanted:
        return StartEstimate(0.0, 0.0, 0)
    past = sorted((release for release in releases if release.at_s <= now_s), key=lambda release: release.at_s)
    past = past[-LONGEST_HISTORY:]
    if len(past) < LEAST_SAMPLES:
        return None
    delays = sorted(_delays(past, wanted, now_s))
    return StartEstimate(_quantile(delays, 0.5), _quantile(delays, 0.9), len(delays))


def hit_rate(outcomes: Sequence[EstimateOutcome]) -> EstimateHitRate:
    """Returns how often claims started within what was estimated."""
    median = [outcome.waited_s <= outcome.estimate.p50_s for outcome in outcomes if outcome.estimate.p50_s is not None]
    high = [outcome.waited_s <= outcome.estimate.p90_s for outcome in outcomes if outcome.estimate.p90_s is not None]
    return EstimateHitRate(
        p50=sum(median) / len(median) if median else None,
        p90=sum(high) / len(high) if high else None,
        outcomes=len(outcomes),
    )


def _delays(past: Sequence[QuotaRelease], wanted: Amounts, now_s: float) -> list[float]:
    """Returns the delay after each release; infinite where it is not over yet and longer than half of the past.

    A moment too close to now to know is left out. Two pointers: both ends only move forward.
    """
    found: list[float] = []
    sums = dict.fromkeys(wanted, 0)
    last = 0
    span_s = now_s - past[0].at_s
    for first, release in enumerate(past):
        while last + 1 < len(past) and any(sums[key] < amount for key, amount in wanted.items()):
            last += 1
            for key in wanted:
                sums[key] += past[last].amounts.get(key, 0)
        if all(sums[key] >= amount for key, amount in wanted.items()):
            found.append(past[last].at_s - release.at_s)
        elif now_s - release.at_s >= span_s / 2:
            found.append(math.inf)
        if first + 1 < len(past) and first + 1 <= last:
            for key in wanted:
                sums[key] -= past[first + 1].amounts.get(key, 0)
    return found


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Returns the smallest value that at least `share` of the samples do not exceed; None if it is unbounded."""
    if not ordered:
        return None
    value = ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
    return None if math.isinf(value) else value
