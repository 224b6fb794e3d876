"""One cycle of execution: throttle CPU and memory first, evict for what stays open, restore calm pods. Pure.

The release of an earlier stage is credited to the later one, so both together go no further than
the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from slackwater.waterline.actuation.cpu_quota import amount_of
from slackwater.waterline.analysis.analyzer import Analysis
from slackwater.waterline.analysis.demands import ActionKind, Demand, Exposure, Restorable
from slackwater.waterline.execution.evict import Attempt, Budget, EvictionPass
from slackwater.waterline.execution.levers import CpuLever, MemoryLever, credit_pending, memory_credits
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import (
    ExecutorState,
    Plan,
    Refused,
    ReleaseLedger,
    Remaining,
    Spared,
    Step,
    Underway,
    nonzero,
)
from slackwater.waterline.execution.restore import restore_memory_limits, restore_quotas
from slackwater.waterline.execution.throttle import ThrottlePass
from slackwater.waterline.facts.amounts import ZERO

HOUR: Final = timedelta(hours=1)
THROTTLED_FIRST: Final = "memory is throttled first"
UNANSWERED: Final = "its eviction was not accepted in time"
Restore = Callable[[Sequence[Restorable], Mapping[str, str]], tuple[tuple[Step, ...], tuple[Spared, ...]]]
"""Returns the quotas to raise among these pods, except those refused (reason by uid)."""


def execute(
    analysis: Analysis,
    before: ExecutorState,
    limits: ActionLimits,
    now: datetime,
    attempt: Attempt | None = None,
    restore: Restore = restore_quotas,
    already: Plan | None = None,
) -> Plan:
    """Returns the plan of a cycle and the next state. `attempt` begins evictions one by one; see
    Attempt. `already`: actions that happen anyway, and count for evictions.
    """
    state = _still_true(before, analysis, limits, now)
    quotas, ledger = ReleaseLedger(), ReleaseLedger()
    throttling = ThrottlePass(
        CpuLever(limits), _without(analysis.throttles, state), _refused(state, ActionKind.THROTTLE), limits
    )
    left_after_throttle = throttling.run(quotas)
    memory, left_after_memory = _throttle_memory(analysis, state, limits, now, ledger, already)
    taken = {step.uid: amount_of(step.changes) for step in throttling.steps}
    if already is not None:
        taken = {step.uid: amount_of(step.changes) for step in already.of(ActionKind.THROTTLE)} | taken
    _credit_throttles(ledger, taken, analysis)
    asked_for = _credit_underway(ledger, state, analysis)
    asked, waiting = _after_memory(_without(analysis.evictions, state), memory.steps)
    evicting = EvictionPass(
        asked,
        _refused(state, ActionKind.EVICT),
        _budget(state, limits),
        limits,
        taken=taken,
        underway=len(state.underway),
        awaited=asked_for,
    )
    left_after_evictions = evicting.run(ledger, attempt)
    leaving = {eviction.uid for eviction in state.underway}
    staying = [candidate for candidate in analysis.restorable if candidate.pod.uid not in leaving]
    raised, kept_down = restore(staying, _refused(state, ActionKind.THROTTLE))
    given_back, kept_low = restore_memory_limits(
        [candidate for candidate in analysis.restorable_memory if candidate.pod.uid not in leaving],
        _refused(state, ActionKind.THROTTLE_MEMORY),
        analysis.capacity_bytes,
    )
    return Plan(
        steps=(*throttling.steps, *memory.steps, *evicting.steps, *raised, *given_back),
        spared=(
            *_protected(analysis),
            *throttling.spared,
            *memory.spared,
            *evicting.spared,
            *kept_down,
            *kept_low,
        ),
        remaining=(*left_after_throttle, *left_after_memory, *left_after_evictions, *waiting),
        state=_after(state, evicting, limits, now),
    )


def preview(
    analysis: Analysis, before: ExecutorState, limits: ActionLimits, now: datetime, already: Plan | None = None
) -> Plan:
    """Returns what rules with strategy Preview would do now, beyond `already`. Nothing is carried
    out.
    """
    if not analysis.previews:
        return Plan(state=before)
    asked = replace(
        analysis,
        throttles=tuple(one for one in analysis.previews if one.kind is ActionKind.THROTTLE),
        evictions=tuple(one for one in analysis.previews if one.kind is ActionKind.EVICT),
        memory=tuple(one for one in analysis.previews if one.kind is ActionKind.THROTTLE_MEMORY),
        restorable=(),
        restorable_memory=(),
    )
    return replace(execute(asked, before, limits, now, already=already), state=before)


def refused(
    state: ExecutorState, uid: str, kind: ActionKind, because: str, now: datetime, limits: ActionLimits
) -> ExecutorState:
    """Returns the state after a begun action was refused (a budget, an unwritable file). It is no
    longer credited, and a failed eviction does not count towards the hourly limit.
    """
    until = now + timedelta(seconds=limits.retry_seconds)
    in_vain = [eviction.begun_at for eviction in state.underway if eviction.uid == uid and kind is ActionKind.EVICT]
    return replace(
        state,
        underway=tuple(eviction for eviction in state.underway if eviction.uid != uid or kind is not ActionKind.EVICT),
        refused=(
            *(refusal for refusal in state.refused if (refusal.uid, refusal.kind) != (uid, kind)),
            Refused(uid, kind, because, until),
        ),
        begun_at=_less(state.begun_at, in_vain),
    )


def _less(times: Sequence[datetime], in_vain: Sequence[datetime | None]) -> tuple[datetime, ...]:
    """Returns the times without one for each failed eviction: several may have begun at once."""
    left = list(times)
    for one in in_vain:
        if one in left:
            left.remove(one)
    return tuple(left)


def _still_true(state: ExecutorState, analysis: Analysis, limits: ActionLimits, now: datetime) -> ExecutorState:
    """Returns the state without finished or expired entries. A pod that terminates shows that its eviction was
    accepted; an eviction that was not accepted in time is given up like a refused one, but for
    a shorter time, because nothing is known against it.
    """
    pods = {uid: one.pod for uid, one in analysis.exposed.by_uid.items()}
    state = ExecutorState(
        underway=tuple(
            replace(eviction, answer_by=None) if pods[eviction.uid].is_terminating else eviction
            for eviction in state.underway
            if eviction.uid in pods and eviction.until > now
        ),
        refused=tuple(refusal for refusal in state.refused if refusal.uid in pods and refusal.until > now),
        begun_at=tuple(at for at in state.begun_at if now - at < HOUR),
    )
    for eviction in state.underway:
        if eviction.answer_by is not None and eviction.answer_by <= now:
            briefly = replace(limits, retry_seconds=limits.answer_seconds or limits.retry_seconds)
            state = refused(state, eviction.uid, ActionKind.EVICT, UNANSWERED, now, briefly)
    return state


def given_up(before: ExecutorState, after: ExecutorState) -> tuple[Underway, ...]:
    """Returns the evictions that a cycle gave up because they were not accepted in time."""
    left = {refusal.uid for refusal in after.refused if refusal.kind is ActionKind.EVICT}
    underway = {eviction.uid for eviction in after.underway}
    return tuple(
        eviction
        for eviction in before.underway
        if eviction.answer_by is not None and eviction.uid in left and eviction.uid not in underway
    )


def _refused(state: ExecutorState, kind: ActionKind) -> dict[str, str]:
    return {refusal.uid: refusal.because for refusal in state.refused if refusal.kind is kind}


def _without(demands: Sequence[Demand], state: ExecutorState) -> tuple[Demand, ...]:
    """Returns the demands without pods that are already being evicted."""
    leaving = {eviction.uid for eviction in state.underway}
    if not leaving:
        return tuple(demands)
    return tuple(
        replace(
            demand, candidates=tuple(candidate for candidate in demand.candidates if candidate.pod.uid not in leaving)
        )
        for demand in demands
    )


def _throttle_memory(
    analysis: Analysis,
    state: ExecutorState,
    limits: ActionLimits,
    now: datetime,
    evictions: ReleaseLedger,
    already: Plan | None,
) -> tuple[ThrottlePass, tuple[Remaining, ...]]:
    """Returns the memory limits to lower. What they release, and what limits in force have still to, counts for
    evictions too.
    """
    memory = ThrottlePass(
        MemoryLever(limits), _without(analysis.memory, state), _refused(state, ActionKind.THROTTLE_MEMORY), limits
    )
    pods = (
        [exposure.pod for exposure in analysis.exposed.by_uid.values()] if analysis.memory or analysis.evictions else []
    )
    own = ReleaseLedger()
    credit_pending(own, analysis.memory, pods, now)
    credit_pending(evictions, analysis.evictions, pods, now)
    left = memory.run(own)
    happening = () if already is None else already.of(ActionKind.THROTTLE_MEMORY)
    released = {step.uid: step.memory.amount_bytes for step in (*happening, *memory.steps) if step.memory is not None}
    metrics = [eviction.metric for eviction in analysis.evictions]
    for uid, amount in released.items():
        evictions.credit(memory_credits(metrics, analysis.exposed.by_uid[uid].pod, amount))
    return memory, left


def _after_memory(demands: Sequence[Demand], steps: Sequence[Step]) -> tuple[tuple[Demand, ...], tuple[Remaining, ...]]:
    """Returns the eviction demands to work off now, and those that wait: of a metric that cannot be quantified, while
    memory is still throttled for it.
    """
    throttled = {step.metric for step in steps}
    waiting = [demand for demand in demands if demand.gap is None and demand.metric.name in throttled]
    left = (Remaining(one.kind, one.metric.name, None, ZERO, None, THROTTLED_FIRST) for one in waiting)
    return tuple(demand for demand in demands if demand not in waiting) if waiting else tuple(demands), tuple(left)


def _credit_throttles(ledger: ReleaseLedger, taken: Mapping[str, Decimal], analysis: Analysis) -> None:
    pods = [(analysis.exposed.by_uid[uid].pod, milli) for uid, milli in taken.items()]
    for eviction in analysis.evictions:
        amounts = [eviction.metric.released_by_throttle(pod, milli) for pod, milli in pods]
        ledger.credit({eviction.metric.name: sum(amounts, ZERO)})


def _credit_underway(ledger: ReleaseLedger, state: ExecutorState, analysis: Analysis) -> ReleaseLedger:
    """Credit accepted evictions with the pod's current usage, which is what will be released, and those that were given
    up and accepted later. Returns what those release that are not accepted yet.
    """
    awaited = ReleaseLedger()
    late = [refusal.uid for refusal in state.refused if refusal.kind is ActionKind.EVICT]
    for uid, is_awaited in [
        *((eviction.uid, eviction.answer_by is not None) for eviction in state.underway),
        *((uid, False) for uid in late if analysis.exposed.by_uid[uid].pod.is_terminating),
    ]:
        pod = analysis.exposed.by_uid[uid].pod
        released = nonzero(
            (eviction.metric.name, eviction.metric.released_by_eviction(pod)) for eviction in analysis.evictions
        )
        (awaited if is_awaited else ledger).credit(released)
    return awaited


def _budget(state: ExecutorState, limits: ActionLimits) -> Budget:
    hourly = None if limits.evictions_per_hour is None else max(0, limits.evictions_per_hour - len(state.begun_at))
    cycle = limits.evictions_per_cycle
    if hourly is not None and (cycle is None or hourly < cycle):
        return Budget(hourly, f"no more than {limits.evictions_per_hour} evictions an hour")
    return Budget(cycle, f"no more than {cycle} evictions in one cycle")


def _protected(analysis: Analysis) -> list[Spared]:
    """Returns the protected pods, for a plan that affects any pod."""
    kinds = [
        kind
        for kind, asked in (
            (ActionKind.THROTTLE, analysis.throttles),
            (ActionKind.THROTTLE_MEMORY, analysis.memory),
            (ActionKind.EVICT, analysis.evictions),
        )
        if asked
    ]
    return [
        _spared(kind, exposure)
        for kind in kinds
        for exposure in analysis.exposed.by_uid.values()
        if exposure.protected_because
    ]


def _spared(kind: ActionKind, exposure: Exposure) -> Spared:
    return Spared(kind, exposure.pod.uid, exposure.pod.name, exposure.protected_because)


def _after(state: ExecutorState, evicting: EvictionPass, limits: ActionLimits, now: datetime) -> ExecutorState:
    retry = now + timedelta(seconds=limits.retry_seconds)
    answer_by = None if limits.answer_seconds is None else now + timedelta(seconds=limits.answer_seconds)
    begun = tuple(
        Underway(step.uid, now + timedelta(seconds=limits.credited_seconds(step.grace_seconds)), now, answer_by)
        for step in evicting.steps
    )
    failed = tuple(Refused(uid, ActionKind.EVICT, why, retry) for uid, why in evicting.refused_now.items())
    return ExecutorState((*state.underway, *begun), (*state.refused, *failed), (*state.begun_at, *(now for _ in begun)))
