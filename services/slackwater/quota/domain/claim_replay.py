"""The JSON from which the decision about a claim is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields
from typing import Any, Final

from slackwater.fairshare.arbitration import arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationSettings, QuotaSnapshot
from slackwater.fairshare.claims import ClaimRun, ClaimState, QuotaClaim, ReclaimOrder, ReclaimReason, RunFinding
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_decisions import ClaimDecision, decisions_of
from slackwater.quota.domain.tree_ledger import uses

FUNCTION: Final = f"{__name__}:replay_outcome"


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


def decided_again(snapshot: QuotaSnapshot, now_s: float, claim: str) -> ClaimDecision:
    """Returns the decision about a claim. Raises LookupError where it is not decided about."""
    quotas = {quota.name: quota for quota in snapshot.quotas}
    own: dict[str, dict[str, int]] = {}
    requested: dict[str, dict[str, int]] = {}
    for each in snapshot.claims:
        for sums, amounts in ((own, each.holds), (requested, each.wants)):
            used = sums.setdefault(each.quota, {})
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + amount
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
    return {field.name: whole[field.name] for field in fields(claim) if whole[field.name] != _default(field)}


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
