"""Compares claims with what agents report as running: claimed and never started, running and never claimed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from slackwater.fairshare.claims import ENDED, HOLDING, ClaimState, QuotaClaim
from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record


@record(frozen=True, slots=True)
class RunningWorkload:
    """What agents report under one workload key, all nodes together."""

    workload: str
    amounts: Amounts
    since_s: float
    """When it was first seen without a break."""


@record(frozen=True, slots=True)
class ReconciliationSettings:
    """How long claims and reports may differ before it is a finding."""

    start_timeout_s: float = 300.0
    """From admission to the first report."""
    end_timeout_s: float = 60.0
    """From the last report to the end: agents report every few seconds, and may be cut off for a while."""
    claim_timeout_s: float = 60.0
    """From the first report of a workload to its claim."""


class ReconciliationFinding(StrEnum):
    """How claims and reports differ."""

    STARTED = "started"
    """Expected: an admitted claim's workload runs. To be noted."""
    ENDED = "ended"
    """Its workload ran and runs no more: the claim is to be released."""
    NEVER_STARTED = "never_started"
    """Admitted for longer than allowed, and nothing runs: holds resources that others wait for."""
    NEVER_CLAIMED = "never_claimed"
    """Runs without any claim."""
    NOT_ADMITTED = "not_admitted"
    """Runs while its claim is queued."""
    AFTER_END = "after_end"
    """Runs though its claim has ended."""
    BEYOND_CLAIM = "beyond_claim"
    """Runs with more than it was admitted with."""


@record(frozen=True, slots=True)
class ReconciledClaim:
    """One finding. Amounts are what is claimed and what runs."""

    finding: ReconciliationFinding
    claim: str
    """Empty where there is none."""
    workload: str
    quota: str
    since_s: float
    """Of the difference."""
    claimed: Amounts = field(default_factory=dict)
    running: Amounts = field(default_factory=dict)


def reconcile(
    claims: Iterable[QuotaClaim],
    running: Mapping[str, RunningWorkload],
    last_seen_s: Mapping[str, float],
    now_s: float,
    settings: ReconciliationSettings | None = None,
) -> Sequence[ReconciledClaim]:
    """Returns every difference, by workload and claim.

    `running` is by workload key; `last_seen_s` says when a workload was last reported, also of those that run no more.
    A claim that names no workload cannot be compared and is left out. Several claims of one workload share its report:
    an active one is compared rather than an ended one.
    """
    settings = settings or ReconciliationSettings()
    by_workload: dict[str, list[QuotaClaim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.id):
        if claim.workload:
            by_workload.setdefault(claim.workload, []).append(claim)
    found: list[ReconciledClaim] = []
    for key in sorted({*by_workload, *running}):
        found += _of_workload(key, by_workload.get(key, ()), running.get(key), last_seen_s.get(key), now_s, settings)
    return found


def _of_workload(
    key: str,
    claims: Sequence[QuotaClaim],
    runs: RunningWorkload | None,
    last_seen_s: float | None,
    now_s: float,
    settings: ReconciliationSettings,
) -> Iterable[ReconciledClaim]:
    if runs is None:
        return [item for claim in claims for item in _idle(claim, last_seen_s, now_s, settings)]
    active = [claim for claim in claims if claim.state in HOLDING]
    if active:
        return _active(active, runs)
    for claim in claims:
        if claim.state not in ENDED:
            return [_item(ReconciliationFinding.NOT_ADMITTED, claim, runs, runs.since_s)]
    if claims:
        last = max(claims, key=lambda claim: (claim.ended_s or 0.0, claim.id))
        ended_s = last.ended_s or last.submitted_s
        late = now_s - ended_s > settings.end_timeout_s
        return [_item(ReconciliationFinding.AFTER_END, last, runs, ended_s)] if late else ()
    if now_s - runs.since_s <= settings.claim_timeout_s:
        return ()
    finding = ReconciliationFinding.NEVER_CLAIMED
    return [ReconciledClaim(finding, "", key, "", runs.since_s, running=runs.amounts)]


def _active(claims: Sequence[QuotaClaim], runs: RunningWorkload) -> Iterable[ReconciledClaim]:
    for claim in claims:
        if claim.started_s is None:
            yield _item(ReconciliationFinding.STARTED, claim, runs, runs.since_s)
    claimed: dict[str, int] = {}
    for claim in claims:
        for resource, amount in claim.holds.items():
            claimed[resource] = claimed.get(resource, 0) + amount
    if any(amount > claimed.get(resource, 0) for resource, amount in runs.amounts.items()):
        last = claims[-1]
        finding = ReconciliationFinding.BEYOND_CLAIM
        yield ReconciledClaim(finding, last.id, runs.workload, last.quota, runs.since_s, claimed, runs.amounts)


def _idle(
    claim: QuotaClaim, last_seen_s: float | None, now_s: float, settings: ReconciliationSettings
) -> Iterable[ReconciledClaim]:
    if claim.state not in HOLDING:
        return
    if claim.started_s is not None:
        since_s = max(claim.started_s, last_seen_s or 0.0)
        # What has to end is not started again by its platform, so that its absence from a report is its end.
        timeout_s = 0.0 if claim.state is ClaimState.RECLAIMING else settings.end_timeout_s
        if now_s - since_s > timeout_s:
            yield _item(ReconciliationFinding.ENDED, claim, None, since_s)
    elif claim.admitted_s is not None and now_s - claim.admitted_s > settings.start_timeout_s:
        yield _item(ReconciliationFinding.NEVER_STARTED, claim, None, claim.admitted_s)


def _item(
    finding: ReconciliationFinding, claim: QuotaClaim, runs: RunningWorkload | None, since_s: float
) -> ReconciledClaim:
    running = {} if runs is None else runs.amounts
    return ReconciledClaim(finding, claim.id, claim.workload, claim.quota, since_s, claim.holds, running)
