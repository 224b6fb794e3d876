"""The order of claims inside one quota: priority and arrival in one figure, so that waiting counts.

A claim's rank is its submission time minus `aging_s` for each point of priority; the lowest goes first. So a claim
overtakes those that came at most `aging_s` earlier per point of priority between them, and no claim is overtaken by
later arrivals without end. The rank never changes while a claim waits: the order does not depend on the time of asking.
Policies: Kueue's StrictFIFO and BestEffortFIFO.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from slackwater.fairshare.claims import QuotaClaim

DEFAULT_AGING_S = 60.0


class QueuePolicy(StrEnum):
    """What the first claim of a queue does to those behind it while it does not fit."""

    STRICT_FIFO = "strict_fifo"
    """It blocks them."""
    BEST_EFFORT_FIFO = "best_effort_fifo"
    """Smaller ones pass, until it has waited for long; then free resources are kept for it."""


Rank = tuple[float, float, str]


def rank(claim: QuotaClaim, aging_s: float | None) -> Rank:
    """Returns the sort key: (rank in seconds, submission, id). `aging_s` None: priority alone, then arrival."""
    if aging_s is None:
        return (-float(claim.priority), claim.submitted_s, claim.id)
    return (claim.submitted_s - claim.priority * aging_s, claim.submitted_s, claim.id)


def in_order(claims: Iterable[QuotaClaim], aging_s: float | None) -> list[QuotaClaim]:
    """Returns the claims of one quota, the next one first."""
    return sorted(claims, key=lambda claim: rank(claim, aging_s))
