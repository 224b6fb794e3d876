"""Lower limits just as far as the gap: one pass over the candidates, stop when it is closed."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.waterline.candidates import in_order, protection
from slackwater.waterline.plan import LimitChange, Spared
from slackwater.waterline.policy import KERNEL_MINIMUM_MILLI, ThrottlePolicy
from slackwater.waterline.snapshot import PodSample, Snapshot
from slackwater.waterline.state import GuardState


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Which limits go down to close `target_milli`, who is left alone, and what stays open for which reason."""

    changes: tuple[LimitChange, ...]
    spared: tuple[Spared, ...]
    remaining_milli: int
    remaining_because: str


def floor_milli(pod: PodSample, policy: ThrottlePolicy) -> int:
    """The lowest limit that this pod may get."""
    return max(int(policy.min_request_ratio * pod.request_milli), policy.min_cpu_milli, KERNEL_MINIMUM_MILLI)


def smallest_change_milli(capacity_milli: int, policy: ThrottlePolicy) -> int:
    """Changes below this are not worth a write."""
    return max(1, int(policy.min_change_ratio * capacity_milli))


def _lower(pod: PodSample, present: int | None, gap_left: int, snapshot: Snapshot, policy: ThrottlePolicy) -> int | str:
    """The new limit of one pod, or why it stays.

    A limit that is in force but not yet seen in the usage is credited: the pod uses at most its limit.
    """
    usage = pod.usage_milli if present is None else min(pod.usage_milli, present)
    if usage <= 0:
        return "uses nothing"
    limit = max(floor_milli(pod, policy), usage - gap_left)
    if limit >= usage:
        return "at its floor"
    if usage - limit < smallest_change_milli(snapshot.capacity_milli, policy):
        return "would release less than the smallest change"
    return limit


def _untouchable(pod: PodSample, state: GuardState) -> str | None:
    return protection(pod) or ("the node could not write its limit" if pod.uid in state.refused else None)


def squeeze(snapshot: Snapshot, state: GuardState, policy: ThrottlePolicy, target_milli: int) -> Squeeze:
    """Release `target_milli`, no more, from those who have to give way first."""
    gap_left, changes, spared = target_milli, [], []
    for pod in in_order(snapshot.pods):
        ours = state.limit_of(pod.uid)
        present = ours if ours is not None else pod.original_limit_milli
        answer: int | str | None = _untouchable(pod, state)
        if answer is None:
            closed = gap_left <= 0
            answer = "gap already closed" if closed else _lower(pod, present, gap_left, snapshot, policy)
        if isinstance(answer, str):
            spared.append(Spared(pod.uid, pod.name, answer))
            continue
        usage = pod.usage_milli if present is None else min(pod.usage_milli, present)
        changes.append(LimitChange(pod.uid, pod.name, pod.tier, present, answer, usage - answer))
        gap_left -= usage - answer
    remaining = max(0, gap_left)
    return Squeeze(tuple(changes), tuple(spared), remaining, _why_open(remaining, snapshot))


def _why_open(remaining: int, snapshot: Snapshot) -> str:
    if remaining == 0:
        return ""
    if all(protection(pod) for pod in snapshot.pods):
        return "no pod that may be throttled"
    return "every pod that may be throttled is at its floor, uses nothing, would release too little or was refused"
