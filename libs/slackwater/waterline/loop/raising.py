"""Give quotas back as far as the closed loop allows: who gave way last comes first, the last step to the very number of
before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from slackwater.waterline.actuation.cpu_quota import QuotaChange, milli_of, quota_of
from slackwater.waterline.analysis.demands import Kind, Restorable
from slackwater.waterline.execution.plan import Spared, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.loop.steadying import EVERYTHING, Allowance
from slackwater.waterline.ordering.chains import CPU

Allow = Callable[[Restorable], Allowance]


@dataclass(frozen=True, slots=True)
class Raising:
    """A way to restore, for slackwater.waterline.execution.executor. What is given counts as the limits rise, whoever
    uses it: what a pod does not use now it may use in the next moment. `smallest_milli`: a raise of one pod that is
    smaller is not worth a write."""

    allow: Allow
    capacity_milli: int
    smallest_milli: int

    def __call__(
        self, restorable: Sequence[Restorable], refused: Mapping[str, str]
    ) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
        by_uid = {one.pod.uid: one for one in restorable}
        given, steps, spared = ZERO, [], []
        for keys, pod in reversed(CPU.ranked(one.pod for one in restorable)):
            one = by_uid[pod.uid]
            allowed = self.allow(one) if one.is_covered else EVERYTHING
            why = refused.get(pod.uid) or allowed.idle_because
            changes = () if why else self._raised(pod, allowed, allowed.milli - given)
            if not changes:
                because = why or "its limit cannot rise by more than the smallest change"
                spared.append(Spared(Kind.RESTORE, pod.uid, pod.name, because))
                continue
            cost = sum((change.amount_milli for change in changes), ZERO)
            given += cost
            steps.append(Step(Kind.RESTORE, pod.uid, pod.name, "", keys, (("cpu", cost),), changes))
        return tuple(steps), tuple(spared)

    def _raised(self, pod: PodUse, allowed: Allowance, left: Decimal) -> tuple[QuotaChange, ...]:
        changes = []
        for container in reversed(pod.containers):
            change = self._raise(pod.uid, container, allowed, left)
            if change is not None:
                changes.append(change)
                left -= change.amount_milli
        return tuple(changes)

    def _raise(self, uid: str, container: Container, allowed: Allowance, left: Decimal) -> QuotaChange | None:
        before, original = container.quota_us, container.original_quota_us
        if before is None or before == original or not container.is_readable:
            return None
        held = milli_of(before, container.period_us)
        missing = max(ZERO, self._full(container) - held)
        raised = missing if allowed.all_at_once else min(missing, left)
        if not allowed.to_original:
            raised = min(raised, missing - self.smallest_milli)
        if raised >= missing:
            return QuotaChange(uid, container.name, before, original, container.period_us, missing)
        if raised < self.smallest_milli:
            return None
        after = quota_of(held + raised, container)
        return QuotaChange(uid, container.name, before, after, container.period_us, raised)

    def _full(self, container: Container) -> Decimal:
        """The limit that means the same as the original: no pod can use more than the node has."""
        capacity = Decimal(self.capacity_milli)
        if container.original_quota_us is None:
            return capacity
        return min(milli_of(container.original_quota_us, container.period_us), capacity)
