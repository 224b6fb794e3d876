"""The quotas of the story's pool: two teams, of which one borrows and one wants its own back, and a group of two."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from slackwater.events.envelope import Event, event_of
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted, ReclaimedClaim, WaitingClaim

CPU, MEMORY = "batch-cpu", "batch-memory"
EVERY: Final = timedelta(seconds=30)
ASKS_SECONDS: Final = 660
"""From then on team-a asks for its min."""
TOTAL: Final = {CPU: 24_000, MEMORY: 96 << 30}


def quotas(start: datetime, seconds: int) -> list[Event[Any]]:
    """Returns the ledgers of so many seconds from `start`, one every 30 s."""
    return [
        event_of(ledger, source="quota", time=ledger.accounted_at, id=str(uuid5(NAMESPACE_URL, f"ledger/{number}")))
        for number, ledger in enumerate(_ledgers(start, seconds))
    ]


def _ledgers(start: datetime, seconds: int) -> Iterator[QuotaAccounted]:
    for passed in range(0, seconds, int(EVERY.total_seconds())):
        at, asks = start + timedelta(seconds=passed), passed >= ASKS_SECONDS
        yield QuotaAccounted(
            tree="default",
            generation=100 + passed,
            total=TOTAL,
            nodes=4,
            unschedulable_nodes=1,
            quotas=(
                _quota("team-a", 8, used=2, requested=10 if asks else 2, lent=6, owed=6 if asks else 0, queued=asks),
                _quota("team-b", 8, used=14, requested=15, borrowed=6, queued=1),
                _quota("research", 8, used=8, requested=8, holding=0),
                _quota("vision", 4, used=3, requested=3, parent="research", lent=1),
                _quota("speech-and-translation-of-low-resource-languages", 4, used=5, requested=5, parent="research",
                       borrowed=1),
            ),
            queue=(
                *(_waiting("train-a-2", "team-a", 8, at, "resources are being reclaimed for it") for _ in range(asks)),
                _waiting("render-b-9", "team-b", 1, at, "what is free is kept for claims that go first"),
            ),
            reclaiming=tuple(
                ReclaimedClaim(
                    claim=f"render-b-{number}", quota="team-b", amounts={CPU: 3000}, reason="lender_min",
                    for_quota="team-a", for_claim="train-a-2", deadline=at + timedelta(seconds=20 - 40 * (number == 7)),
                )
                for number in (8, 7) if asks
            ),
            candidates=(
                ReclaimedClaim(claim="render-b-6", quota="team-b", amounts={CPU: 3000}, workload="team-b/render"),
                ReclaimedClaim(claim="corpus-4", quota="speech-and-translation-of-low-resource-languages", priority=5,
                               amounts={CPU: 1000, MEMORY: 4 << 30}),
            ),
            accounted_at=at,
        )  # fmt: skip


def _quota(
    name: str,
    cores: int,
    *,
    used: int,
    requested: int,
    parent: str = "root",
    borrowed: int = 0,
    lent: int = 0,
    owed: int = 0,
    holding: int = 3,
    queued: int = 0,
) -> AccountedQuota:
    def cpu(amount: int) -> dict[str, int]:
        return {CPU: 1000 * amount, MEMORY: amount << 32}

    return AccountedQuota(
        name=name,
        parent=parent,
        depth=1 if parent == "root" else 2,
        min=cpu(cores),
        max=cpu(16) if parent == "root" else {},
        used=cpu(used),
        requested=cpu(requested),
        entitled=cpu(cores),
        runtime=cpu(max(min(requested, cores), used - borrowed)),
        fair_share=cpu(cores),
        borrowed=cpu(borrowed),
        lent=cpu(lent),
        owed=cpu(owed),
        holding=holding,
        queued=int(queued),
    )


def _waiting(claim: str, quota: str, cores: int, at: datetime, message: str) -> WaitingClaim:
    estimated = quota == "team-b"
    return WaitingClaim(
        claim=claim,
        quota=quota,
        position=1,
        queue_length=1,
        request={CPU: 1000 * cores},
        reason="kept" if estimated else "reclaiming",
        message=message,
        submitted_at=at - timedelta(seconds=90),
        p50_seconds=240.0 if estimated else None,
        p90_seconds=900.0 if estimated else None,
        hit_rate_p90=0.88 if estimated else None,
        outcomes=17 if estimated else 0,
    )
