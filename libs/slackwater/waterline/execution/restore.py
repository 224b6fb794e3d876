"""Raises limits again: the last throttled pod first, stepwise within the headroom, to the exact original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from slackwater.waterline.actuation.cpu_quota import amount_of, restore_cpu
from slackwater.waterline.actuation.memory_high import MemoryChange, restore_memory
from slackwater.waterline.analysis.demands import ActionKind, Restorable
from slackwater.waterline.analysis.memory_demands import RestorableMemory
from slackwater.waterline.execution.levers import LimitChange
from slackwater.waterline.execution.plan import Spared, Step
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.ordering.chains import CPU, MEMORY, ComparatorChain

R = TypeVar("R", Restorable, RestorableMemory)
Raise = Callable[[R, Decimal], LimitChange | str]
"""Returns the raise of a pod after so much was given to others; or why there is none."""
_RESOURCES = {ActionKind.RESTORE: "cpu", ActionKind.RESTORE_MEMORY: "memory"}


def restore_in_turn(
    kind: ActionKind, restorable: Sequence[R], refused: Mapping[str, str], chain: ComparatorChain, raised: Raise[R]
) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
    """Returns the raises of one cycle. What is given to one pod is not available to the others."""
    by_uid = {candidate.pod.uid: candidate for candidate in restorable}
    given, steps, spared = ZERO, [], []
    for keys, pod in reversed(chain.ranked(candidate.pod for candidate in restorable)):
        change = refused.get(pod.uid) or raised(by_uid[pod.uid], given)
        if isinstance(change, str):
            spared.append(Spared(kind, pod.uid, pod.name, change))
            continue
        given += change.amount
        cost = ((_RESOURCES[kind], change.amount),)
        steps.append(Step(kind, pod.uid, pod.name, "", keys, cost, change.quotas, memory=change.memory))
    return tuple(steps), tuple(spared)


def restore_quotas(
    restorable: Sequence[Restorable], refused: Mapping[str, str], chain: ComparatorChain = CPU
) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
    """Returns the raises of one cycle without the closed loop."""
    return restore_in_turn(ActionKind.RESTORE, restorable, refused, chain, _raised_quota)


def _raised_quota(candidate: Restorable, given: Decimal) -> LimitChange | str:
    left = None if candidate.headroom is None else max(ZERO, candidate.headroom - given)
    if left is not None and left <= ZERO:
        return "no headroom is left"
    changes = (candidate.restore or restore_cpu)(candidate.pod, candidate.bounds, left)
    return LimitChange(amount_of(changes), changes) if changes else "the headroom is too small for its quota to rise"


def restore_memory_limits(
    restorable: Sequence[RestorableMemory],
    refused: Mapping[str, str],
    capacity_bytes: int | None,
    chain: ComparatorChain = MEMORY,
) -> tuple[tuple[Step, ...], tuple[Spared, ...]]:
    """Returns the raises of memory limits of one cycle."""

    def raised(candidate: RestorableMemory, given: Decimal) -> LimitChange | str:
        left = None if candidate.headroom is None else max(ZERO, candidate.headroom - given)
        free = None if candidate.free is None else max(ZERO, candidate.free - given)
        change = _raised_memory(candidate, left, free, capacity_bytes)
        if change is None:
            return "the headroom is too small for its limit to rise"
        return LimitChange(change.amount_bytes, memory=change)

    return restore_in_turn(ActionKind.RESTORE_MEMORY, restorable, refused, chain, raised)


def _raised_memory(
    candidate: RestorableMemory, left: Decimal | None, free: Decimal | None, capacity_bytes: int | None
) -> MemoryChange | None:
    pod = candidate.pod
    if not candidate.is_covered and pod.memory_high_bytes is not None:
        return MemoryChange(pod.uid, pod.memory_high_bytes, pod.original_memory_high_bytes, ZERO)
    return restore_memory(pod, candidate.bounds, left, capacity_bytes, free)
