"""The upper memory level of one pod (memory.high of cgroup v2): how far to lower or raise it, and what that releases.

memory.high counts everything that a pod holds: `held = usage + reclaimable`, where usage cannot be dropped and the page
cache can. Lowering it drops page cache first, so a limit never goes below what cannot be dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.facts.amounts import ZERO, exact
from slackwater.waterline.facts.pods import PodUse

PAGE_BYTES: Final = 4096
MIB: Final = 2**20
CREDIT_SECONDS: Final = 10.0
"""So long after a limit was set, what it has still to release is credited."""
BINDING_RATIO: Final = Decimal("0.9")
"""A pod that holds less than this share of its limit is not bound by it: removing the limit costs nothing."""

PROBE_RATIO: Final = Decimal("0.1")
"""Where nothing is free, a limit that prod's refaults lowered rises by this share: prod loses little if it is too much,
and page cache without use does not hold the limit down for good."""


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """How far one cycle may move a pod's limit.

    min_ratio           of its requested memory stays
    min_bytes           stay in any case
    margin_ratio        times the memory that cannot be dropped stays, so that the pod does not stall for good
    step_ratio          of what it holds is taken at most per cycle
    restore_step_ratio  of the limit is given back at most per cycle
    min_change_bytes    a smaller change is not worth a write
    horizon_seconds     prod's refaults over this time are its lack of page cache
    """

    min_ratio: Decimal = Decimal("0.5")
    min_bytes: int = 64 * MIB
    margin_ratio: Decimal = Decimal("1.1")
    step_ratio: Decimal = Decimal("0.25")
    restore_step_ratio: Decimal = Decimal("0.5")
    min_change_bytes: int = 16 * MIB
    horizon_seconds: Decimal = Decimal(10)


@record(frozen=True, slots=True)
class MemoryChange:
    """One limit before and after in bytes (None = unlimited). `amount_bytes` is what a cut releases, or what a raise
    may cost.
    """

    uid: str
    before_bytes: int | None
    after_bytes: int | None
    amount_bytes: Decimal


def held_bytes(pod: PodUse) -> Decimal | None:
    """Returns what memory.high counts; None if a part was not measured."""
    if pod.memory_usage_bytes is None or pod.reclaimable_bytes is None:
        return None
    return exact(pod.memory_usage_bytes) + exact(pod.reclaimable_bytes)


def floor_bytes(pod: PodUse, bounds: MemoryBounds) -> int:
    """Returns the lowest limit allowed for this pod, in whole pages."""
    kept = max(
        bounds.min_ratio * pod.extended_memory_request_bytes,
        Decimal(bounds.min_bytes),
        bounds.margin_ratio * exact(pod.memory_usage_bytes or 0),
    )
    return _pages(kept)


def releasable_bytes(pod: PodUse, bounds: MemoryBounds) -> Decimal:
    """Returns what all cuts together can still release: what the pod may hold now, less its floor."""
    base = _base(pod)
    return ZERO if base is None else max(ZERO, base - floor_bytes(pod, bounds))


def pending_bytes(pod: PodUse, now: datetime) -> Decimal:
    """Returns what a limit set a short time ago has still to release: page cache above it."""
    held, since = held_bytes(pod), pod.memory_high_since
    if held is None or since is None or pod.memory_high_bytes is None:
        return ZERO
    if not 0 <= (now - since).total_seconds() <= CREDIT_SECONDS:
        return ZERO
    return min(max(ZERO, held - pod.memory_high_bytes), exact(pod.reclaimable_bytes or 0))


def is_memory_throttled(pod: PodUse) -> bool:
    return pod.memory_high_bytes is not None and pod.memory_high_bytes != pod.original_memory_high_bytes


def throttle_memory(pod: PodUse, bounds: MemoryBounds, gap_bytes: Decimal | None) -> MemoryChange | None:
    """Returns the cut of a pod, for a gap or (None) by a whole step; None if it would release less than the smallest
    change. A gap is closed, beyond by less than a page, so that no pod is evicted for a remainder.

    A limit in force but not yet visible in what the pod holds is the base of the next one, so nothing is counted twice.
    """
    base, before = _base(pod), pod.memory_high_bytes
    if base is None:
        return None
    after = max(_pages(base * (1 - bounds.step_ratio)), floor_bytes(pod, bounds))
    if gap_bytes is not None:
        after = max(after, int(base - gap_bytes) // PAGE_BYTES * PAGE_BYTES)
    released = base - after
    if released < max(1, bounds.min_change_bytes) or (before is not None and after >= before):
        return None
    return MemoryChange(pod.uid, before, after, released)


def restore_memory(
    pod: PodUse,
    bounds: MemoryBounds,
    headroom_bytes: Decimal | None,
    capacity_bytes: int | None,
    free_bytes: Decimal | None = None,
) -> MemoryChange | None:
    """Returns the raise of a pod by a step within the headroom (None: no bound), at most to the exact original.

    With `free_bytes` known, a step beyond what is free is a small one. A limit that does not bind the pod goes back at
    once.
    """
    before, original = pod.memory_high_bytes, pod.original_memory_high_bytes
    if before is None or (original is not None and before >= original):
        return None
    held = held_bytes(pod)
    if held is not None and held < BINDING_RATIO * before:
        return MemoryChange(pod.uid, before, original, ZERO)
    least = Decimal(bounds.min_change_bytes + PAGE_BYTES)
    raised = max(before * bounds.restore_step_ratio, least)
    if free_bytes is not None:
        raised = min(raised, max(free_bytes, before * PROBE_RATIO, least))
    if headroom_bytes is not None:
        raised = min(raised, headroom_bytes)
    top = capacity_bytes if original is None else original
    if top is not None and before + raised >= top:
        return MemoryChange(pod.uid, before, original, Decimal(max(0, top - before)))
    after = int(before + raised) // PAGE_BYTES * PAGE_BYTES
    if after - before < max(1, bounds.min_change_bytes):
        return None
    return MemoryChange(pod.uid, before, after, Decimal(after - before))


def _base(pod: PodUse) -> Decimal | None:
    """Returns what the pod holds and may hold; None if that was not measured."""
    held = held_bytes(pod)
    if held is None or pod.memory_high_bytes is None:
        return held
    return min(held, Decimal(pod.memory_high_bytes))


def _pages(amount: Decimal) -> int:
    """Returns the bytes rounded up to whole pages, as the kernel counts them."""
    return -(-int(amount.to_integral_value(ROUND_CEILING)) // PAGE_BYTES) * PAGE_BYTES
