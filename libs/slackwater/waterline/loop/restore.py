"""Restores quotas within the closed loop: the last throttled pod first, its last step to the exact
original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from slackwater.waterline.actuation.cpu_quota import QuotaChange, amount_of, milli_of, quota_of
from slackwater.waterline.analysis.demands import ActionKind, Restorable
from slackwater.waterline.execution.levers import LimitChange
from slackwater.waterline.execution.plan import Spared, Step
from slackwater.waterline.execution.restore import restore_in_turn
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.loop.feedback import EVERYTHING, Allowance
from slackwater.waterline.ordering.chains import CPU

Allow = Callable[[Restorable], Allowance]


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """A restore function for slackwater.waterline.execution.executor. Raises count in full,
    whichever pod uses the CPU, because a pod may use it at any moment. `smallest_milli`: a smaller
    raise of one pod is not written.
    """

    allow: Allow
    capacity_milli: int
    smallest_milli: int

    def __call__(
        self, restorable: Sequence[Restorable], refused: Mapping[str, str]
    ) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
        return restore_in_turn(ActionKind.RESTORE, restorable, refused, CPU, self._raised)

    def _raised(self, restorable: Restorable, given: Decimal) -> LimitChange | str:
        allowed = self.allow(restorable) if restorable.is_covered else EVERYTHING
        if allowed.idle_because:
            return allowed.idle_because
        changes = self._changes(restorable, allowed, allowed.milli - given)
        return LimitChange(amount_of(changes), changes) if changes else _why_not_raised(restorable.pod)

    def _changes(self, restorable: Restorable, allowed: Allowance, left: Decimal) -> tuple[QuotaChange, ...]:
        if restorable.restore is not None:
            return self._permitted(
                restorable.pod,
                restorable.restore(restorable.pod, restorable.bounds, _headroom(allowed, left)),
                allowed,
                left,
            )
        changes = []
        for container in reversed(restorable.pod.containers):
            change = self._raise(restorable.pod.uid, container, allowed, left)
            if change is not None:
                changes.append(change)
                left -= change.amount_milli
        return tuple(changes)

    def raised_wholly(self, pod: PodUse) -> tuple[QuotaChange, ...]:
        """Returns the changes that bring all limits of a pod back to their originals."""
        found = (self._raise(pod.uid, container, EVERYTHING, ZERO) for container in reversed(pod.containers))
        return tuple(change for change in found if change is not None)

    def _permitted(
        self, pod: PodUse, wanted: Sequence[QuotaChange], allowed: Allowance, left: Decimal
    ) -> tuple[QuotaChange, ...]:
        """Returns the changes of a metric's own restore function, bounded by the loop, which counts
        their cost here.
        """
        containers = {container.name: container for container in pod.containers}
        changes = []
        for change in wanted:
            container = containers[change.container]
            to_original = change.after_us == container.original_quota_us
            cost = self._limit(change.after_us, container) - self._limit(change.before_us, container)
            if (to_original and not allowed.to_original) or (cost > left and not allowed.all_at_once):
                continue
            changes.append(replace(change, amount_milli=max(ZERO, cost)))
            left -= cost
        return tuple(changes)

    def _raise(self, uid: str, container: Container, allowed: Allowance, left: Decimal) -> QuotaChange | None:
        before, original = container.quota_us, container.original_quota_us
        if before is None or before == original or not container.is_readable:
            return None
        held = milli_of(before, container.period_us)
        missing = max(ZERO, self._limit(original, container) - held)
        raised = missing if allowed.all_at_once else min(missing, left)
        if not allowed.to_original:
            raised = min(raised, missing - self.smallest_milli)
        if raised >= missing:
            return QuotaChange(uid, container.name, before, original, container.period_us, missing)
        if raised < self.smallest_milli:
            return None
        after = quota_of(held + raised, container)
        return QuotaChange(uid, container.name, before, after, container.period_us, raised)

    def _limit(self, quota_us: int | None, container: Container) -> Decimal:
        """Returns the CPU that a quota allows, at most the node's capacity."""
        capacity = Decimal(self.capacity_milli)
        return capacity if quota_us is None else min(milli_of(quota_us, container.period_us), capacity)


def undo_throttles(pods: Sequence[PodUse], capacity_milli: int) -> tuple[Step, ...]:
    """Returns the steps that restore every limit to its exact original at once, the last throttled pod first."""
    undo = RestoreStep(lambda _: EVERYTHING, capacity_milli, 0)
    steps = []
    for keys, pod in reversed(CPU.ranked(pods)):
        changes = undo.raised_wholly(pod)
        if changes:
            steps.append(Step(ActionKind.RESTORE, pod.uid, pod.name, "", keys, (("cpu", amount_of(changes)),), changes))
    return tuple(steps)


def _why_not_raised(pod: PodUse) -> str:
    if not all(container.is_readable for container in pod.containers):
        return "its limit could not be read"
    return "its limit cannot rise by more than the smallest change"


def _headroom(allowed: Allowance, left: Decimal) -> Decimal | None:
    return None if allowed.all_at_once else max(ZERO, left)
