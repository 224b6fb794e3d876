"""The memory limits in force on one node, as stored between two cycles, and when they may rise again. Pure.

The stored limits are authoritative: a report may not yet show a limit that was just sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.analysis.analyzer import Analysis
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PodUse

RELAPSE_SECONDS: Final = 60.0
"""A trigger this soon after a raise is attributed to it: the next raises come later."""
RAISE_SECONDS: Final = 10.0
"""Between two raises: page cache fills slowly, so the effect of one is seen late."""
FORGET_SECONDS: Final = 1800.0
"""Calm for so long, earlier relapses no longer count."""
MOST_BACKOFF: Final = 6


@record(frozen=True, slots=True)
class MemoryThrottled:
    """A memory limit in force (or just sent) since `since`, and the original limit (None = unlimited)."""

    uid: str
    name: str
    tier: str
    high_bytes: int
    original_high_bytes: int | None
    since: datetime | None = None


@record(frozen=True, slots=True)
class MemoryBackoff:
    """When memory was last asked for and given back; `backoff` counts raises that were followed by a new trigger."""

    last_trigger_at: datetime | None = None
    last_raise_at: datetime | None = None
    backoff: int = 0


def with_limit(
    pod: PodUse, reclaimable: Number | None, original_bytes: int | None, ours: MemoryThrottled | None
) -> PodUse:
    """Returns the pod with its memory limit. `original_bytes` is the one before any throttle."""
    if reclaimable is None and ours is None:
        return pod
    original = original_bytes if ours is None else ours.original_high_bytes
    return replace(
        pod,
        reclaimable_bytes=reclaimable,
        memory_high_bytes=original if ours is None else ours.high_bytes,
        original_memory_high_bytes=original,
        memory_high_since=None if ours is None else ours.since,
    )


def memory_after(
    before: Iterable[MemoryThrottled], plan: Plan, pods: Mapping[str, PodUse], now: datetime
) -> tuple[MemoryThrottled, ...]:
    """Returns the limits in force once a plan is carried out; pods back at their original are dropped."""
    kept = {one.uid: one for one in before}
    for step in plan.steps:
        if step.memory is None:
            continue
        pod, after, old = pods[step.uid], step.memory.after_bytes, kept.pop(step.uid, None)
        original = pod.original_memory_high_bytes if old is None else old.original_high_bytes
        if after is not None and after != original:
            kept[step.uid] = MemoryThrottled(step.uid, step.name, str(pod.tier or ""), after, original, now)
    return tuple(kept.values())


def within_backoff(analysis: Analysis, loop: MemoryBackoff, now: datetime) -> Analysis:
    """Returns the analysis without raises while memory is asked for, and without those that come too early."""
    if not analysis.restorable_memory:
        return analysis
    kept = tuple(
        candidate
        for candidate in analysis.restorable_memory
        if not candidate.is_covered
        or (not analysis.memory and waits_seconds(loop, candidate.cool_down_seconds, now) <= 0)
    )
    return replace(analysis, restorable_memory=kept)


def waits_seconds(loop: MemoryBackoff, cool_down_seconds: float, now: datetime) -> float:
    """Returns the seconds until limits may rise: every relapse doubles the cool-down."""
    waits = [0.0]
    if loop.last_trigger_at is not None:
        waits.append(cool_down_seconds * 2**loop.backoff - (now - loop.last_trigger_at).total_seconds())
    if loop.last_raise_at is not None:
        waits.append(RAISE_SECONDS - (now - loop.last_raise_at).total_seconds())
    return max(waits)


def loop_after(loop: MemoryBackoff, analysis: Analysis, plan: Plan, now: datetime) -> MemoryBackoff:
    """Returns the state after a cycle."""
    if analysis.memory:
        return MemoryBackoff(now, None, _backoff(loop, now))
    if plan.of(ActionKind.RESTORE_MEMORY):
        return replace(loop, last_raise_at=now)
    return loop


def _backoff(loop: MemoryBackoff, now: datetime) -> int:
    if loop.last_raise_at is not None and (now - loop.last_raise_at).total_seconds() <= RELAPSE_SECONDS:
        return min(MOST_BACKOFF, loop.backoff + 1)
    last = loop.last_trigger_at
    return 0 if last is not None and (now - last).total_seconds() > FORGET_SECONDS else loop.backoff
