"""Compares the claims of a tree with what agents report: notices for claims, and workloads that have none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.decisions.reasons import Reason
from slackwater.fairshare.claims import ENDED, ClaimRun, ClaimState, QuotaClaim, RunFinding, end, start
from slackwater.fairshare.reconciliation import (
    ReconciledClaim,
    ReconciliationFinding,
    ReconciliationSettings,
    RunningWorkload,
    reconcile,
)
from slackwater.model.records import record
from slackwater.quota.domain.claim_decisions import ClaimDecision, SumTerm
from slackwater.quota.domain.claim_requests import existing
from slackwater.quota.domain.running_pods import RunningPod, RunningPods, claim_key, workload_of

OVERDUE_S: Final = 30.0
"""From the end of the grace to the finding: what kills the last process, and the next report, take their time."""
FINDINGS: Final[Mapping[ReconciliationFinding, RunFinding]] = {
    ReconciliationFinding.NEVER_STARTED: RunFinding.NEVER_STARTED,
    ReconciliationFinding.NOT_ADMITTED: RunFinding.NOT_ADMITTED,
    ReconciliationFinding.BEYOND_CLAIM: RunFinding.BEYOND_CLAIM,
}
_MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.CLAIM_FOUND_NEVER_STARTED: "was admitted, and nothing of it was ever seen running",
    Reason.CLAIM_FOUND_NEVER_CLAIMED: "runs without a claim: nothing counts what it uses",
    Reason.CLAIM_FOUND_NOT_ADMITTED: "runs while its claim is queued",
    Reason.CLAIM_FOUND_AFTER_END: "runs though its claim has ended",
    Reason.CLAIM_FOUND_RECLAIM_WITHOUT_EFFECT: "had to end, and holds on beyond its grace",
    Reason.CLAIM_FOUND_ENDED: "its pods run no more: released",
}


@record(frozen=True, slots=True)
class WorkloadEvidence:
    """What claims and reports say under one key: everything that findings about it are decided from."""

    key: str
    live: Sequence[QuotaClaim]
    """Claims that may be compared with reports."""
    ended: Sequence[QuotaClaim]
    pods: Sequence[RunningPod]
    nodes: Collection[str]
    """Those of the pods' nodes that belong to the tree."""
    last_seen_s: float
    """When a pod was last reported; since when reports are read, if none was."""
    observed_s: float
    settings: ReconciliationSettings


@record(frozen=True, slots=True)
class RunNotice:
    """What agents report of one claim, as a request about it."""

    id: str
    quota: str
    run: ClaimRun | None
    evidence: WorkloadEvidence
    has_ended: bool = False

    def applied(self, found: QuotaClaim | None, now_s: float) -> QuotaClaim | None:
        """As slackwater.quota.domain.claim_requests.ClaimRequest."""
        claim = existing(found, self.id, self.quota)
        if claim.state in ENDED:
            return None
        after = replace(claim, run=self.run)
        if self.has_ended and claim.state is not ClaimState.QUEUED:
            state = ClaimState.RECLAIMED if claim.state is ClaimState.RECLAIMING else ClaimState.RELEASED
            return end(after, state, now_s)
        if self.run is not None and self.run.pods and claim.state is not ClaimState.QUEUED:
            after = start(after, now_s)
        return None if after == claim else after


@record(frozen=True, slots=True)
class UnclaimedWorkload:
    """Runs without a claim that holds. `claim` has ended; empty: there never was one that is still kept."""

    workload: str
    claim: str
    quota: str
    pods: int
    since_s: float
    amounts: Mapping[str, int]
    evidence: WorkloadEvidence

    @property
    def reason(self) -> Reason:
        return Reason.CLAIM_FOUND_AFTER_END if self.claim else Reason.CLAIM_FOUND_NEVER_CLAIMED


@record(frozen=True, slots=True)
class ObservedClaims:
    """What differs, and what is to be noted."""

    notices: Sequence[RunNotice]
    unclaimed: Sequence[UnclaimedWorkload]


def observe_claims(
    live: Sequence[QuotaClaim],
    ended: Sequence[QuotaClaim],
    pods: RunningPods,
    nodes: Collection[str],
    now_s: float,
    settings: ReconciliationSettings | None = None,
) -> ObservedClaims:
    """Returns the notices of claims that change by what is reported, and what runs unclaimed on `nodes`.

    A claim that was started by its platform and that no agent ever reported is left to its platform. What is unknown
    since this process listens is not missing.
    """
    groups = _evidence(live, ended, pods, frozenset(nodes), now_s, settings or ReconciliationSettings())
    observed = [observe_workload(evidence) for evidence in groups]
    notices = {notice.id: notice for workload in observed for notice in workload.notices}
    return ObservedClaims(
        [notices[claim.id] for claim in live if claim.id in notices],
        [unclaimed for workload in observed for unclaimed in workload.unclaimed],
    )


def observe_workload(evidence: WorkloadEvidence) -> ObservedClaims:
    """Returns the notices of the claims of one key, and what runs under it without a claim."""
    runs = _workload(evidence)
    compared = [
        replace(claim, workload=evidence.key)
        for claim in (*evidence.live, *evidence.ended)
        if claim.started_s is None or runs is not None or _was_seen(claim)
    ]
    running = {} if runs is None else {evidence.key: runs}
    last_seen_s = {evidence.key: evidence.last_seen_s}
    reconciled = reconcile(compared, running, last_seen_s, evidence.observed_s, evidence.settings)
    by_claim: dict[str, list[ReconciledClaim]] = {}
    for each in reconciled:
        by_claim.setdefault(each.claim, []).append(each)
    notices = [_notice(claim, evidence, by_claim.get(claim.id, ())) for claim in evidence.live]
    pods = evidence.pods
    unclaimed = [
        UnclaimedWorkload(pods[0].workload, each.claim, each.quota, len(pods), each.since_s, each.running, evidence)
        for each in reconciled
        if each.finding in (ReconciliationFinding.NEVER_CLAIMED, ReconciliationFinding.AFTER_END)
    ]
    return ObservedClaims([notice for notice in notices if notice is not None], unclaimed)


def _evidence(
    live: Sequence[QuotaClaim],
    ended: Sequence[QuotaClaim],
    pods: RunningPods,
    nodes: frozenset[str],
    now_s: float,
    settings: ReconciliationSettings,
) -> Iterator[WorkloadEvidence]:
    """Yields what is known of each key that a comparable claim or a pod has, sorted by key."""
    by_key = pods.by_key()
    both: tuple[dict[str, list[QuotaClaim]], dict[str, list[QuotaClaim]]] = ({}, {})
    for claims, into in zip((live, ended), both, strict=True):
        for claim in claims:
            if _is_comparable(claim, pods):
                into.setdefault(pods.key_of(claim), []).append(claim)
    for key in sorted({*by_key, *both[0], *both[1]}):
        running = by_key.get(key, [])
        here = {pod.node for pod in running if pod.node in nodes}
        seen_s = pods.last_seen_s.get(key, pods.listening_since_s)
        yield WorkloadEvidence(key, both[0].get(key, ()), both[1].get(key, ()), running, here, seen_s, now_s, settings)


def _workload(evidence: WorkloadEvidence) -> RunningWorkload | None:
    """What counts of a workload: what its claims name; of one without a claim, what runs on the tree's nodes. None if
    nothing does."""
    if not evidence.pods:
        return None
    if not evidence.live:
        counted = [pod for pod in evidence.pods if not pod.is_system and pod.node in evidence.nodes]
        workload = workload_of(evidence.key, counted, evidence.observed_s)
        return workload if workload.amounts else None
    named = {resource for claim in evidence.live for resource in claim.request}
    whole = workload_of(evidence.key, evidence.pods, evidence.observed_s)
    return replace(whole, amounts={name: amount for name, amount in whole.amounts.items() if name in named})


def _is_comparable(claim: QuotaClaim, pods: RunningPods) -> bool:
    """Returns whether reports say something of a claim: it names a workload, a pod named it, or it has to end."""
    named = bool(claim.workload) or claim.run is not None or claim_key(claim.id) in pods.last_seen_s
    return named or claim.state is ClaimState.RECLAIMING


def _was_seen(claim: QuotaClaim) -> bool:
    return claim.run is not None and claim.run.first_seen_s is not None


def _notice(claim: QuotaClaim, evidence: WorkloadEvidence, found: Sequence[ReconciledClaim]) -> RunNotice | None:
    pods, now_s = evidence.pods, evidence.observed_s
    has_ended = any(difference.finding is ReconciliationFinding.ENDED for difference in found)
    differs = [
        (FINDINGS[difference.finding], difference.since_s) for difference in found if difference.finding in FINDINGS
    ]
    order = claim.reclaim
    if claim.state is ClaimState.RECLAIMING and order is not None and now_s - order.deadline_s > OVERDUE_S:
        differs.insert(0, (RunFinding.RECLAIM_WITHOUT_EFFECT, order.deadline_s))
    finding, since_s = differs[0] if differs and not has_ended else (None, None)
    before = claim.run
    if before is not None and before.finding is finding:
        since_s = before.since_s
    first_seen_s = before.first_seen_s if before is not None else None
    if pods and first_seen_s is None:
        first_seen_s = min(pod.first_seen_s for pod in pods)
    run = ClaimRun(len(pods), first_seen_s, finding, since_s)
    seen = run if before is not None or run != ClaimRun(0) else None
    started = bool(pods) and claim.started_s is None and claim.state is not ClaimState.QUEUED
    is_news = has_ended or started or seen != before
    return RunNotice(claim.id, claim.quota, seen, evidence, has_ended) if is_news else None


def finding_decision(
    before: QuotaClaim | None, after: QuotaClaim, now_s: float, *, has_ended: bool
) -> ClaimDecision | None:
    """Returns what was found about a claim by this change; None if nothing new was."""
    if has_ended:
        since_s = after.started_s if after.started_s is not None else now_s
        return _timed(after.id, after.quota, Reason.CLAIM_FOUND_ENDED, since_s, now_s, "ran")
    run = after.run
    finding_before = None if before is None or before.run is None else before.run.finding
    if run is None or run.finding is None or run.finding is finding_before:
        return None
    since_s = now_s if run.since_s is None else run.since_s
    return _timed(after.id, after.quota, Reason(f"claim_found_{run.finding.value}"), since_s, now_s, "since then")


def unclaimed_decision(workload: UnclaimedWorkload, now_s: float) -> ClaimDecision:
    """Returns the decision that tells of a workload without a claim."""
    timed = _timed(workload.workload, workload.quota, workload.reason, workload.since_s, now_s, "since then")
    return replace(timed, others={**timed.others, "pods": workload.pods, **workload.amounts})


def _timed(claim: str, quota: str, reason: Reason, since_s: float, now_s: float, name: str) -> ClaimDecision:
    terms = (SumTerm(name, int(now_s) - int(since_s), "seconds"),)
    message = _MESSAGES.get(reason, "runs with more than it was admitted with")
    return ClaimDecision(claim, quota, reason, message, terms, "seconds", {"since": int(since_s), "now": int(now_s)})
