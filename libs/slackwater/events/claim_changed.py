"""claim.changed: a claim on a quota was admitted, queued, refused, has to end, or has ended."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.fairshare.claims import ClaimState
from slackwater.model.bounds import Count, Mapped, Moment, Name, Text
from slackwater.model.tiers import Tier


class ClaimChanged(Payload):
    """The state of a claim after a change. The platform that runs it follows it by itself: it starts on `admitted`, and
    on `reclaiming` ends by `deadline`, which is `for_quota`'s or `for_claim`'s demand.

    Amounts are milli-cores of a CPU, else whole units. `reason` is the decision's, `decision_id` its record; both are
    empty where no decision was needed, such as a release.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "claim.changed"
    STREAM: ClassVar[str] = "DECISIONS"
    LISTED: ClassVar[bool] = True

    claim: Name
    quota: Name
    tree: Name
    tier: Tier
    state: ClaimState
    workload: Name
    request: Mapped[Count]
    admitted: Mapped[Count]
    reason: Name
    message: Text
    decision_id: Name
    for_quota: Name = ""
    for_claim: Name = ""
    deadline: Moment | None = None
    changed_at: Moment

    def key(self) -> str:
        return f"{self.tree}/{self.claim}"

    def shard_key(self) -> str:
        return self.tree
