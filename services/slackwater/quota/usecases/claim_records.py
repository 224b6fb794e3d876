"""The decision record of a decision about a claim."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord, Input, Replay, Term
from slackwater.events.claim_changed import ClaimChanged
from slackwater.fairshare.arbitration_plan import QuotaSnapshot
from slackwater.fairshare.claims import QuotaClaim
from slackwater.quota.domain.claim_decisions import ClaimDecision
from slackwater.quota.domain.claim_replay import FUNCTION, replay_arguments
from slackwater.quota.domain.claim_runs import WorkloadEvidence
from slackwater.quota.domain.finding_replay import FUNCTION as OBSERVATION
from slackwater.quota.domain.finding_replay import finding_arguments
from slackwater.quota.domain.ledger_records import KeptClaim, tree_key

SERVICE: Final = "quota"
RULE: Final = "arbitrate"
RECONCILE: Final = "reconcile"
REPORTS: Final = "agents' reports"
MOST_REPLAYED: Final = 60
"""Quotas and claims, or claims and pods, in the arguments of a replay; records of more are compact, because a busy tree
would fill the stream with copies of itself."""
_IDS: Final = uuid.UUID("5a8d9f53-0f0c-5d0e-9d1c-6a5a3f0f7b11")


def place_of(tree: str) -> str:
    """Returns what stands for a node in records about a tree. No node has a colon in its name."""
    return f"quota:{tree_key(tree)}"


def claim_records(
    decisions: Iterable[ClaimDecision], snapshot: QuotaSnapshot, tree: str, generation: int, now: datetime
) -> Mapping[str, DecisionRecord]:
    """Returns the records of the decisions taken on `generation` of the tree, by claim. What they share is made once:
    it is half of what a record costs."""
    small = len(snapshot.claims) + len(snapshot.quotas) <= MOST_REPLAYED
    shared, by_quota = _totals(snapshot, tree, now), dict[str, Input]()
    unreplayed, place = Replay(function=FUNCTION, arguments={}), place_of(tree)
    records: dict[str, DecisionRecord] = {}
    for decision in decisions:
        name = decision.quota
        source = f"elasticquota/{name}"
        if name not in by_quota:
            by_quota[name] = Input(name="quota", value=name, unit="", source=source)
        figures = [Input(name=key, value=value, unit="", source=source) for key, value in decision.others.items()]
        replay = unreplayed
        if small:
            arguments = replay_arguments(snapshot, now.timestamp(), decision.claim)
            replay = Replay(function=FUNCTION, arguments=arguments)
        records[decision.claim] = DecisionRecord(
            id=str(uuid.uuid5(_IDS, f"{tree}|{generation}|{decision.claim}|{decision.reason.value}")),
            kind=DecisionKind.CLAIM,
            node=place,
            subject=decision.claim,
            service=SERVICE,
            rule=RULE,
            reason=decision.reason,
            decided_at=now,
            trigger_event_id=None,
            inputs=(by_quota[name], *figures, *shared),
            terms=tuple(Term(name=term.name, value=term.value, note=term.note) for term in decision.terms),
            result=decision.result,
            unit=decision.unit,
            remaining_because=decision.message,
            replay=replay,
            compact=not small,
        )
    return records


def finding_record(
    decision: ClaimDecision,
    evidence: WorkloadEvidence,
    tree: str,
    now: datetime,
    claim: str = "",
    found: QuotaClaim | None = None,
) -> DecisionRecord:
    """Returns the record of what was found about a claim, which was stored as `found`, or about a workload without one.
    The same finding again has the same id."""
    small = len(evidence.live) + len(evidence.ended) + len(evidence.pods) <= MOST_REPLAYED
    arguments = finding_arguments(evidence, now.timestamp(), claim, found) if small else {}
    since_s = decision.others["since"]
    figures = {name: value for name, value in decision.others.items() if name not in ("since", "now")}
    since = datetime.fromtimestamp(since_s, UTC).isoformat()
    inputs = [Input(name=name, value=value, unit="", source=REPORTS) for name, value in figures.items()]
    inputs.append(Input(name="since", value=since, unit="", source=REPORTS))
    return DecisionRecord(
        id=str(uuid.uuid5(_IDS, f"{tree}|{decision.claim}|{decision.reason.value}|{since_s}")),
        kind=DecisionKind.CLAIM,
        node=place_of(tree),
        subject=decision.claim,
        service=SERVICE,
        rule=RECONCILE,
        reason=decision.reason,
        decided_at=now,
        trigger_event_id=None,
        inputs=tuple(inputs),
        terms=tuple(Term(name=term.name, value=term.value, note=term.note) for term in decision.terms),
        result=decision.result,
        unit=decision.unit,
        remaining_because=decision.message,
        replay=Replay(function=OBSERVATION, arguments=arguments),
        compact=not small,
    )


def claim_event(kept: KeptClaim, now: datetime) -> ClaimChanged:
    """Returns the event of a claim's new state."""
    claim, order, because = kept.claim, kept.claim.reclaim, kept.because
    return ClaimChanged(
        claim=claim.id,
        quota=claim.quota,
        tree=tree_key(kept.tree),
        tier=claim.tier,
        state=claim.state,
        workload=claim.workload,
        request=dict(claim.request),
        admitted=dict(claim.admitted),
        reason="" if because is None else because.reason,
        message="" if because is None else because.message,
        decision_id="" if because is None else because.decision,
        for_quota="" if order is None else order.for_quota,
        for_claim="" if order is None else order.for_claim,
        deadline=None if order is None else datetime.fromtimestamp(order.deadline_s, UTC),
        changed_at=now,
    )


def _totals(snapshot: QuotaSnapshot, tree: str, now: datetime) -> Sequence[Input]:
    totals = [
        Input(name=f"total {resource}", value=amount, unit="", source=f"tree {tree_key(tree)}", observed_at=now)
        for resource, amount in sorted(snapshot.totals.get(tree, {}).items())
    ]
    totals += [
        Input(name=f"reserved {resource}", value=amount, unit="", source="reservations", observed_at=now)
        for resource, amount in sorted(snapshot.reserved.get(tree, {}).items())
    ]
    return totals
