"""A claim that is admitted in part says what it asked for, and what it was given."""

from __future__ import annotations

from slackwater.fairshare.arbitration_plan import AdmissionBasis, ArbitrationPlan, ClaimAdmission
from slackwater.quota.domain.claim_decisions import decisions_of

ASKED = {"batch-cpu": 4000, "batch-memory": 1 << 30}


def message(amounts: dict[str, int]) -> str:
    admission = ClaimAdmission("c", "team-b", amounts, AdmissionBasis.BORROWED, ASKED, 0.5)
    plan = ArbitrationPlan([admission], [], [], [], [], [], [], [], {})
    [decision] = decisions_of(plan, {}, {}, ())
    return decision.message


def test_a_part_names_what_was_asked_for() -> None:
    assert message({"batch-cpu": 1637, "batch-memory": 1 << 30}) == (
        "admitted borrowed with batch-cpu 1.637 of 4 asked for, batch-memory 1Gi"
    )
    assert message(ASKED) == "admitted borrowed with batch-cpu 4, batch-memory 1Gi"
