"""What operators watch of one tree: debts, waits, and reclaims without effect."""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.fairshare.claims import ClaimState, QuotaClaim, RunFinding
from slackwater.fairshare.debts import QuotaAccounts
from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record


@record(frozen=True, slots=True)
class QuotaGauges:
    """Amounts are by quota and resource, in the unit of the ledger."""

    used: Mapping[str, Amounts]
    runtime: Mapping[str, Amounts]
    owed: Mapping[str, Amounts]
    queued: Mapping[str, int]
    """Claims that wait, by quota."""
    oldest_wait_s: Mapping[str, float]
    """How long the claim that waits longest has waited, by quota."""
    found: Mapping[str, Mapping[RunFinding, int]]
    """Claims that differ from what agents report, by quota and finding."""
    overdue: Mapping[str, int]
    """Claims that hold on beyond the end of their grace, by quota: reclaims without effect."""


def tree_figures(accounts: Mapping[str, QuotaAccounts], claims: Mapping[str, QuotaClaim], now_s: float) -> QuotaGauges:
    """Returns the figures at `now_s`."""
    queued, oldest, overdue = (dict.fromkeys(accounts, 0), dict.fromkeys(accounts, 0.0), dict.fromkeys(accounts, 0))
    findings: dict[str, dict[RunFinding, int]] = {name: {} for name in accounts}
    for claim in claims.values():
        if claim.quota not in accounts:
            continue
        if claim.run is not None and claim.run.finding is not None:
            counts = findings[claim.quota]
            counts[claim.run.finding] = counts.get(claim.run.finding, 0) + 1
        if claim.state is ClaimState.QUEUED:
            queued[claim.quota] += 1
            oldest[claim.quota] = max(oldest[claim.quota], now_s - claim.submitted_s)
        elif claim.reclaim is not None and claim.state is ClaimState.RECLAIMING:
            overdue[claim.quota] += claim.reclaim.deadline_s < now_s
    return QuotaGauges(
        used={name: account.used for name, account in accounts.items()},
        runtime={name: account.runtime for name, account in accounts.items()},
        owed={name: account.owed for name, account in accounts.items()},
        queued=queued,
        oldest_wait_s=oldest,
        found=findings,
        overdue=overdue,
    )
