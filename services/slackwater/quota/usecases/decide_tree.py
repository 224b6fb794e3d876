"""One decision about a tree: the requests of a batch, the plan, and what is stored and published of both.

The steps are called in this order by ArbitrateTree; none of them waits. The index of the tree has the requests' claims
from the first step on, so that the plan sees them; a tree whose decision was not written is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.fairshare.arbitration import apply_plan, arbitrate, plain_snapshot
from slackwater.fairshare.arbitration_plan import ArbitrationPlan
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.start_estimate import StartEstimate
from slackwater.model.errors import SlackwaterError
from slackwater.model.records import record
from slackwater.quota.domain.claim_decisions import ClaimDecision
from slackwater.quota.domain.claim_requests import ClaimRequest, Submission, require_place
from slackwater.quota.domain.claim_runs import RunNotice, finding_decision
from slackwater.quota.domain.ledger_records import ClaimReasoning, KeptClaim, StoredTree
from slackwater.quota.domain.reclaim_counts import count_reclaims, with_reclaims
from slackwater.quota.domain.tree_inputs import TreeInputs
from slackwater.quota.usecases.ask_reclaims import reclaim_requests
from slackwater.quota.usecases.claim_records import SERVICE, claim_event, claim_records, finding_record
from slackwater.quota.usecases.quota_trees import QuotaTrees


@dataclass(slots=True)
class PendingRequest:
    """One request, and what came of it."""

    request: ClaimRequest
    result: KeptClaim | None = None
    error: Exception | None = None
    is_new: bool = False
    before: QuotaClaim | None = None
    after: QuotaClaim | None = None
    """The claim that the request found, and what it made of it; None if it changed nothing."""

    @property
    def is_done(self) -> bool:
        return self.result is not None or self.error is not None

    def begin_again(self) -> None:
        """Forget what came of an attempt that was not written."""
        self.error = self.result = None


@record(frozen=True, slots=True)
class TreeDecision:
    """What was decided, before it is written."""

    plan: ArbitrationPlan
    explained: Sequence[ClaimDecision]
    changed: Mapping[str, QuotaClaim]
    """By requests and by the plan."""
    findings: Mapping[str, DecisionRecord]
    """Records of what agents' reports say of claims, by claim."""
    records: Mapping[str, DecisionRecord]
    """Records of the plan, by claim."""
    tree: StoredTree | None
    """None: there is nothing to write."""
    requests: Sequence[Payload]
    """Evictions, and grant for them, that are asked for."""


def apply_requests(
    inputs: TreeInputs, batch: Sequence[PendingRequest], others: Mapping[str, KeptClaim]
) -> Mapping[str, QuotaClaim]:
    """Returns the claims that the requests change, which the index then has; errors stay with their request. `others`
    are ended claims, and those of other trees, that requests name."""
    changed: dict[str, QuotaClaim] = {}
    current = inputs.current
    for pending in batch:
        name = pending.request.id
        other = others.get(name)
        before = changed.get(name) or current.claims.get(name) or (None if other is None else other.claim)
        pending.before, pending.after = before, None
        try:
            if before is None and isinstance(pending.request, Submission):
                require_place(current.index, pending.request.quota)
            pending.after = claim = pending.request.applied(before, inputs.now_s)
        except SlackwaterError as error:
            pending.error = error
            continue
        if claim is None:
            pending.result = current.kept.get(name) or other
            continue
        pending.is_new = before is None
        if before is None:
            claim = with_reclaims(claim, current.stored.reclaims, inputs.now_s)
        changed[name] = claim
        current.index.put(claim)
    return changed


def decide_tree(
    inputs: TreeInputs, batch: Sequence[PendingRequest], requested: Mapping[str, QuotaClaim], trees: QuotaTrees
) -> TreeDecision:
    """Returns the decision about a tree whose index has the `requested` claims. `trees` knows its pods and pools."""
    index, stored = inputs.current.index, inputs.current.stored
    snapshot = inputs.snapshot(index)
    plan = arbitrate(snapshot, inputs.now_s)
    queued = {name for name, claim in requested.items() if claim.state is ClaimState.QUEUED}
    explained = inputs.explained(plan, index, queued)
    records: Mapping[str, DecisionRecord] = {}
    if explained:
        records = claim_records(explained, plain_snapshot(snapshot), inputs.tree, stored.generation + 1, inputs.now)
    changed = {**requested, **apply_plan(plan, index.by_id, inputs.now_s)}
    findings = _findings(inputs, batch)
    decision_of = _decision_of(inputs, {**findings, **records})
    grant, requests = reclaim_requests(inputs.tree, plan, changed, inputs.current, trees, decision_of, inputs.now)
    tree = None
    if changed or grant is not stored.grant or plan.over_since_s != stored.over_since_s:
        reclaims = count_reclaims(stored.reclaims, changed.values(), inputs.now_s)
        tree = replace(stored, over_since_s=dict(plan.over_since_s), grant=grant, reclaims=reclaims)
    return TreeDecision(plan, explained, changed, findings, records, tree, requests)


def _findings(inputs: TreeInputs, batch: Sequence[PendingRequest]) -> Mapping[str, DecisionRecord]:
    records = {}
    for pending in batch:
        notice, before, after = pending.request, pending.before, pending.after
        if isinstance(notice, RunNotice) and after is not None:
            decision = finding_decision(before, after, inputs.now_s, has_ended=notice.has_ended)
            if decision is not None:
                records[notice.id] = finding_record(
                    decision, notice.evidence, inputs.tree, inputs.now, notice.id, before
                )
    return records


def _decision_of(inputs: TreeInputs, records: Mapping[str, DecisionRecord]) -> Callable[[str], str]:
    """Returns what gives the last decision about a claim; empty for none."""

    def decision_of(claim: str) -> str:
        if claim in records:
            return records[claim].id
        kept = inputs.current.kept.get(claim)
        return kept.because.decision if kept is not None and kept.because is not None else ""

    return decision_of


def kept_claims(
    inputs: TreeInputs, decision: TreeDecision, estimate: Callable[[QuotaClaim], StartEstimate | None]
) -> Sequence[KeptClaim]:
    """Returns the changed claims, each with the last decision about it; a new one with its estimate."""
    records = {**decision.findings, **decision.records}
    kept: list[KeptClaim] = []
    for claim in decision.changed.values():
        before = inputs.current.kept.get(claim.id)
        is_same = before is not None and claim.state in (before.claim.state, ClaimState.STARTED)
        because = before.because if before is not None and is_same else None
        if (decided := records.get(claim.id)) is not None:
            because = ClaimReasoning(decided.id, decided.reason.value, decided.remaining_because)
        kept.append(KeptClaim(inputs.tree, claim, because, estimate(claim) if before is None else before.estimate))
    return kept


def events_of(inputs: TreeInputs, decision: TreeDecision, news: Sequence[KeptClaim]) -> Sequence[Event[Any]]:
    """Returns what is published of a decision: its records, its requests, and the claims whose state is new."""
    records = (*decision.findings.values(), *decision.records.values())
    return [
        *(decision_event(decided, None, SERVICE) for decided in records),
        *(event_of(payload, source=SERVICE, time=inputs.now) for payload in decision.requests),
        *(event_of(claim_event(kept, inputs.now), source=SERVICE, time=inputs.now) for kept in news),
    ]


def settle(batch: Sequence[PendingRequest], kept: Mapping[str, KeptClaim]) -> None:
    """Give each request without an error its claim as it is kept now."""
    for pending in batch:
        if pending.error is None:
            pending.result = kept.get(pending.request.id) or pending.result
