"""The JSON from which a finding of the comparison with agents' reports is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.reconciliation import ReconciliationSettings
from slackwater.quota.domain.claim_decisions import ClaimDecision
from slackwater.quota.domain.claim_replay import claim_of, compact_claim
from slackwater.quota.domain.claim_runs import (
    WorkloadEvidence,
    finding_decision,
    observe_workload,
    unclaimed_decision,
)
from slackwater.quota.domain.running_pods import RunningPod

FUNCTION: Final = f"{__name__}:replay_observation"
_POD_FIELDS: Final = ("uid", "node", "workload", "amounts", "is_system", "first_seen_s")


def finding_arguments(
    evidence: WorkloadEvidence, now_s: float, claim: str = "", found: QuotaClaim | None = None
) -> dict[str, Any]:
    """Returns the arguments of `replay_observation`. `found` is the claim as it was stored when the finding was noted;
    without a claim, the finding is about what runs without one."""
    return {
        "evidence": {
            "key": evidence.key,
            "live": [compact_claim(claim_in_force) for claim_in_force in evidence.live],
            "ended": [compact_claim(claim_in_force) for claim_in_force in evidence.ended],
            "pods": [{name: getattr(pod, name) for name in _POD_FIELDS} for pod in evidence.pods],
            "nodes": sorted(evidence.nodes),
            "last_seen_s": evidence.last_seen_s,
            "observed_s": evidence.observed_s,
            "settings": asdict(evidence.settings),
        },
        "now_s": now_s,
        "claim": claim,
        "found": None if found is None else compact_claim(found),
    }


def replay_observation(
    evidence: Mapping[str, Any], now_s: float, claim: str, found: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Compare again; returns reason and seconds of what is found, None if nothing is."""
    decision = observed_again(evidence_of(evidence), now_s, claim, None if found is None else claim_of(found))
    return None if decision is None else {"reason": decision.reason.value, "seconds": decision.result}


def observed_again(
    evidence: WorkloadEvidence, now_s: float, claim: str, found: QuotaClaim | None
) -> ClaimDecision | None:
    """Returns what is found about a claim, or about what runs without one; None if nothing is."""
    observed = observe_workload(evidence)
    if not claim:
        return next((unclaimed_decision(workload, now_s) for workload in observed.unclaimed), None)
    for notice in observed.notices:
        if notice.id == claim and found is not None:
            after = notice.applied(found, now_s)
            return None if after is None else finding_decision(found, after, now_s, has_ended=notice.has_ended)
    return None


def evidence_of(document: Mapping[str, Any]) -> WorkloadEvidence:
    """Returns the evidence of `finding_arguments`."""
    key = document["key"]
    return WorkloadEvidence(
        key=key,
        live=[claim_of(claim) for claim in document["live"]],
        ended=[claim_of(claim) for claim in document["ended"]],
        pods=[RunningPod(**pod, name="", key=key) for pod in document["pods"]],
        nodes=frozenset(document["nodes"]),
        last_seen_s=document["last_seen_s"],
        observed_s=document["observed_s"],
        settings=ReconciliationSettings(**document["settings"]),
    )
