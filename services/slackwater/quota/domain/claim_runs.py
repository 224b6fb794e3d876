"""Compares the claims of a tree with what agents report: notices for claims, and workloads that have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
FUNCTION: Final = f"{__name__}:replay_finding"
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
class RunNotice:
    """What agents report of one claim, as a request about it."""

    id: str
    quota: str
    run: ClaimRun | None
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
    live = [claim for claim in live if _is_comparable(claim, pods)]
    ended = [claim for claim in ended if _is_comparable(claim, pods)]
    by_key = pods.by_key()
    keys = {claim.id: pods.key_of(claim) for claim in (*live, *ended)}
    named: dict[str, set[str]] = {}
    for claim in live:
        named.setdefault(keys[claim.id], set()).update(claim.request)
    running = {key: _workload(key, by_key[key], named.get(key), nodes, now_s) for key in by_key}
    running = {key: workload for key, workload in running.items() if key in named or workload.amounts}
    compared = [
        replace(claim, workload=keys[claim.id])
        for claim in (*live, *ended)
        if claim.started_s is None or keys[claim.id] in running or _was_seen(claim)
    ]
    last_seen_s = {key: pods.last_seen_s.get(key, pods.listening_since_s) for key in set(keys.values())}
    found = reconcile(compared, running, last_seen_s, now_s, settings)
    by_claim: dict[str, list[ReconciledClaim]] = {}
    for each in found:
        by_claim.setdefault(each.claim, []).append(each)
    notices = [_notice(claim, by_key.get(keys[claim.id], ()), by_claim.get(claim.id, ()), now_s) for claim in live]
    unclaimed = [
        UnclaimedWorkload(
            by_key[each.workload][0].workload,
            each.claim,
            each.quota,
            len(by_key[each.workload]),
            each.since_s,
            each.running,
        )
        for each in found
        if each.finding in (ReconciliationFinding.NEVER_CLAIMED, ReconciliationFinding.AFTER_END)
    ]
    return ObservedClaims([notice for notice in notices if notice is not None], unclaimed)


def _workload(
    key: str, pods: Sequence[RunningPod], named: Collection[str] | None, nodes: Collection[str], now_s: float
) -> RunningWorkload:
    """What counts of a workload: what its claims name; of one without a claim, what runs on the tree's nodes."""
    if named is None:
        return workload_of(key, [pod for pod in pods if not pod.is_system and pod.node in nodes], now_s)
    whole = workload_of(key, pods, now_s)
    return replace(whole, amounts={name: amount for name, amount in whole.amounts.items() if name in named})


def _is_comparable(claim: QuotaClaim, pods: RunningPods) -> bool:
    """Returns whether reports say something of a claim: it names a workload, a pod named it, or it has to end."""
    named = bool(claim.workload) or claim.run is not None or claim_key(claim.id) in pods.last_seen_s
    return named or claim.state is ClaimState.RECLAIMING


def _was_seen(claim: QuotaClaim) -> bool:
    return claim.run is not None and claim.run.first_seen_s is not None


def _notice(
    claim: QuotaClaim, pods: Sequence[RunningPod], found: Sequence[ReconciledClaim], now_s: float
) -> RunNotice | None:
    has_ended = any(each.finding is ReconciliationFinding.ENDED for each in found)
    differs = [(FINDINGS[each.finding], each.since_s) for each in found if each.finding in FINDINGS]
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
    return RunNotice(claim.id, claim.quota, seen, has_ended) if has_ended or started or seen != before else None


def finding_decision(
    before: QuotaClaim | None, after: QuotaClaim, now_s: float, *, has_ended: bool
) -> ClaimDecision | None:
    """Returns what was found about a claim by this change; None if nothing new was."""
    if has_ended:
        since_s = after.started_s if after.started_s is not None else now_s
        return _timed(after.id, after.quota, Reason.CLAIM_FOUND_ENDED, since_s, now_s, "ran")
    run = after.run
    known = None if before is None or before.run is None else before.run.finding
    if run is None or run.finding is None or run.finding is known:
        return None
    since_s = now_s if run.since_s is None else run.since_s
    return _timed(after.id, after.quota, Reason(f"claim_found_{run.finding.value}"), since_s, now_s, "since then")


def unclaimed_decision(found: UnclaimedWorkload, now_s: float) -> ClaimDecision:
    """Returns the decision that tells of a workload without a claim."""
    timed = _timed(found.workload, found.quota, found.reason, found.since_s, now_s, "since then")
    return replace(timed, others={**timed.others, "pods": found.pods, **found.amounts})


def _timed(claim: str, quota: str, reason: Reason, since_s: float, now_s: float, name: str) -> ClaimDecision:
    terms = (SumTerm(name, int(now_s) - int(since_s), "seconds"),)
    message = _MESSAGES.get(reason, "runs with more than it was admitted with")
    return ClaimDecision(claim, quota, reason, message, terms, "seconds", {"since": int(since_s), "now": int(now_s)})


def replay_finding(since_s: int, now_s: int) -> int:
    """Returns the result of the record of a finding: for how long it has been so, in seconds."""
    return now_s - since_s
