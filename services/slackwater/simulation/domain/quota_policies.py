"""The policies that a quota simulation compares: the arbiter, and hard quotas without borrowing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slackwater.fairshare.arbitration import PreparedSnapshot, apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationSettings, may_borrow_s
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim, admit, end
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Amounts, added
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.waiting_queue import QueueCursor


class ArbiterPolicy:
    """The arbitration of the service, with every eviction allowed."""

    name = "arbiter"

    def __init__(
        self,
        layout: TreeLayout,
        total: Amounts,
        settings: ArbitrationSettings,
        queue_policies: Mapping[str, QueuePolicy],
    ) -> None:
        self._layout = layout
        self._total = total
        self._settings = settings
        self._queue_policies = queue_policies
        self._over_since_s: Mapping[str, float] = {}

    def decide(self, index: ClaimIndex, now_s: float) -> Sequence[QuotaClaim]:
        prepared = PreparedSnapshot(
            trees={"": self._layout},
            totals={"": self._total},
            index=index,
            settings=self._settings,
            queue_policies=self._queue_policies,
            over_since_s=self._over_since_s,
            evictions_allowed={},
        )
        plan = arbitrate(prepared, now_s, with_places=False)
        self._over_since_s = plan.over_since_s
        return list(apply_plan(plan, index.by_id, now_s).values())

    def next_change_s(self, index: ClaimIndex, now_s: float) -> float:
        settings = self._settings
        moments = [since_s + settings.reclaim_delay_s for since_s in self._over_since_s.values()]
        for queue in index.queues.values():
            for claims in queue.shapes(settings.aging_s).values():
                submitted_s = claims[0].submitted_s
                moments.append(may_borrow_s(claims[0], settings))
                waits = (settings.starvation_s, settings.drain_s)
                moments += [math.nextafter(submitted_s + wait_s, math.inf) for wait_s in waits]
        return min((moment for moment in moments if moment > now_s), default=math.inf)


class HardQuotaPolicy:
    """Each quota has a part of the pool for itself, its fair share: no borrowing, no reclaim, first in first out."""

    def __init__(self, layout: TreeLayout, total: Amounts, *, passes: bool) -> None:
        """`passes`: whether a claim that fits may pass one that does not."""
        self.name = "hard quotas, best-effort" if passes else "hard quotas, FIFO"
        self._limits = layout.fair_shares(total)
        self._total = total
        self._passes = passes

    def decide(self, index: ClaimIndex, now_s: float) -> Sequence[QuotaClaim]:
        changed: list[QuotaClaim] = []
        for quota, queue in list(index.queues.items()):
            used = dict(index.used.get(quota, {}))
            cursor = QueueCursor(queue.shapes(0.0), 0.0)
            while (claim := cursor.peek()) is not None:
                if not self._fits(quota, {}, claim.request):
                    changed.append(end(claim, ClaimState.REFUSED, now_s))
                    cursor.advance()
                elif self._fits(quota, used, claim.request):
                    changed.append(admit(claim, claim.request, now_s))
                    used = added(used, claim.request)
                    cursor.advance()
                elif self._passes:
                    cursor.drop_shape()
                else:
                    break
        return changed

    def next_change_s(self, index: ClaimIndex, now_s: float) -> float:
        return math.inf

    def _fits(self, quota: str, used: Amounts, request: Amounts) -> bool:
        limits = self._limits[quota]
        return all(
            used.get(resource, 0) + amount <= limits.get(resource, self._total.get(resource, 0))
            for resource, amount in request.items()
        )
