"""The JSON from which the decision about a claim is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields
from typing import Any, Final

from slackwater.decisions.reasons import Reason
from slackwater.fairshare.arbitration import arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationSettings, QuotaSnapshot
from slackwater.fairshare.claims import ClaimRun, ClaimState, QuotaClaim, ReclaimOrder, ReclaimReason, RunFinding
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import ROOT, Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_decisions import ClaimDecision, decisions_of
from slackwater.quota.domain.tree_ledger import uses

FUNCTION: Final = f"{__name__}:replay_outcome"


_RECLAIMED: Final = frozenset(reason for reason in Reason if reason.value.startswith("claim_reclaimed_"))


class OutdatedRule(LookupError):
    """A record was made by a rule that has changed since: its result cannot be compared with that of today."""


def replay_arguments(snapshot: QuotaSnapshot, now_s: float, claim: str) -> dict[str, Any]:
    """Returns the arguments of `replay_outcome`."""
    document = asdict(snapshot)
    for quota in document["quotas"]:
        del quota["own_request"], quota["own_used"]
    document["granted"] = None if snapshot.granted is None else sorted(snapshot.granted)
    document["refused"] = None if snapshot.refused is None else sorted(snapshot.refused)
    if not snapshot.reserved:
        del document["reserved"]
    return {"snapshot": document, "now_s": now_s, "claim": claim}


def replay_outcome(snapshot: Mapping[str, Any], now_s: float, claim: str) -> int:
    """Decide again; returns the result of the record. Raises LookupError where the claim is not decided about."""
    return decided_again(snapshot_of(snapshot), now_s, claim).result


def replay_decision(snapshot: Mapping[str, Any], now_s: float, claim: str) -> int:
    """As `replay_outcome`, for records that are older than decision 0145 and name this function. Raises OutdatedRule
    where a quota below another has a min, or a claim may be admitted in part or has to end while a quota does not
    lend."""
    return _older_decision(snapshot_of(snapshot), now_s, claim).result


def _older_decision(read: QuotaSnapshot, now_s: float, claim: str) -> ClaimDecision:
    nested = any(quota.parent != ROOT and any(quota.minimum.values()) for quota in read.quotas)
    partial = any(each.partial_minimum is not None for each in read.claims)
    if nested or (partial and _keeps(read)):
        raise OutdatedRule(
            f"claim {claim}: the record has mins that were scaled down with what their parent's children request, the"
            " rule of today into what the parent is entitled to (decision 0145)"
        )
    decision = decided_again(read, now_s, claim)
    if decision.reason in _RECLAIMED and _keeps(read):
        raise OutdatedRule(
            f"claim {claim} had to end: the record has what was needed without what other quotas do not lend, or"
            " without what was used beyond the pool; the rule of today has both (decisions 0132, 0145)"
        )
    return decision


def replay_claim(snapshot: Mapping[str, Any], now_s: float, claim: str) -> int:
    """As `replay_decision`, for records that are older than decision 0132 and name this function. Raises OutdatedRule
    for a claim that the whole pool is too small for too: its sum had what was used, and has what others do not
    lend."""
    decision = _older_decision(snapshot_of(snapshot), now_s, claim)
    if decision.reason is Reason.CLAIM_QUEUED_BEYOND_POOL:
        raise OutdatedRule(
            f"claim {claim} waits for a larger pool: the record subtracts what was used then, the rule of today what"
            " other quotas do not lend (decision 0132)"
        )
    return decision.result


def _keeps(snapshot: QuotaSnapshot) -> bool:
    return any(not quota.lends and quota.minimum for quota in snapshot.quotas)


def decided_again(snapshot: QuotaSnapshot, now_s: float, claim: str) -> ClaimDecision:
    """Returns the decision about a claim. Raises LookupError where it is not decided about."""
    quotas = {quota.name: quota for quota in snapshot.quotas}
    own: dict[str, dict[str, int]] = {}
    requested: dict[str, dict[str, int]] = {}
    for each in snapshot.claims:
        for sums, amounts in ((own, each.holds), (requested, each.wants)):
            found = sums.setdefault(each.quota, {})
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, 0) + amount
    tree = snapshot.quotas[0].tree if snapshot.quotas else ""
    runtime = TreeLayout(snapshot.quotas).runtimes(requested, snapshot.totals.get(tree, {}))
    for decision in decisions_of(arbitrate(snapshot, now_s), runtime, uses(quotas, own), {claim}):
        if decision.claim == claim:
            return decision
    raise LookupError(f"claim {claim} is not decided about")


def snapshot_of(document: Mapping[str, Any]) -> QuotaSnapshot:
    """Returns the snapshot of `replay_arguments`."""
    settings = document["settings"]
    policy = QueuePolicy(settings["queue_policy"])
    return QuotaSnapshot(
        quotas=[Quota(**quota) for quota in document["quotas"]],
        totals=document["totals"],
        claims=[claim_of(claim) for claim in document["claims"]],
        settings=ArbitrationSettings(**{**settings, "queue_policy": policy}),
        queue_policies={name: QueuePolicy(value) for name, value in document["queue_policies"].items()},
        over_since_s=document["over_since_s"],
        evictions_allowed=document["evictions_allowed"],
        granted=document.get("granted"),
        refused=document.get("refused"),
        reserved=document.get("reserved", {}),
    )


def compact_claim(claim: QuotaClaim) -> dict[str, Any]:
    """Returns a claim as JSON, without what has its default."""
    whole = asdict(claim)
    return {each.name: whole[each.name] for each in fields(claim) if whole[each.name] != _default(each)}


def claim_of(document: Mapping[str, Any]) -> QuotaClaim:
    """Returns the claim of `replay_arguments` or `compact_claim`."""
    read = dict(document)
    read["tier"] = Tier(document["tier"])
    if "state" in document:
        read["state"] = ClaimState(document["state"])
    order, run = document.get("reclaim"), document.get("run")
    if order is not None:
        read["reclaim"] = ReclaimOrder(**{**order, "reason": ReclaimReason(order["reason"])})
    if run is not None:
        finding = run["finding"]
        read["run"] = ClaimRun(**{**run, "finding": None if finding is None else RunFinding(finding)})
    return QuotaClaim(**read)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
