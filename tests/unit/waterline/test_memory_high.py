"""Memory limits of one pod: never below the floor, never above the original, as far as the gap, back exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import NOON, use

from slackwater.waterline.actuation.memory_high import (
    CREDIT_SECONDS,
    MIB,
    PAGE_BYTES,
    MemoryBounds,
    floor_bytes,
    held_bytes,
    is_memory_throttled,
    pending_bytes,
    releasable_bytes,
    restore_memory,
    throttle_memory,
)
from slackwater.waterline.facts.pods import PodUse

GIB = 2**30
D = Decimal

bounds = st.builds(
    MemoryBounds,
    min_ratio=st.decimals(0, 1, places=2),
    min_bytes=st.integers(PAGE_BYTES, GIB),
    margin_ratio=st.decimals(1, 2, places=2),
    step_ratio=st.decimals("0.01", 1, places=2),
    restore_step_ratio=st.decimals("0.01", 1, places=2),
    min_change_bytes=st.integers(PAGE_BYTES, 64 * MIB),
)
amounts = st.integers(0, 16 * GIB)


@st.composite
def pods(draw: st.DrawFn) -> PodUse:
    """A pod with page cache, whose limit may be set by us."""
    original = draw(st.none() | st.integers(GIB, 32 * GIB))
    high = draw(st.none() | st.integers(PAGE_BYTES, original or 32 * GIB))
    return use(
        "u",
        memory=draw(amounts),
        reclaimable_bytes=draw(amounts),
        extended_memory_request_bytes=draw(amounts),
        memory_high_bytes=original if high is None else high,
        original_memory_high_bytes=original,
        memory_high_since=draw(st.none() | st.just(NOON)),
    )


@given(pods(), bounds, st.none() | st.integers(0, 32 * GIB).map(D))
def test_a_cut_keeps_the_floor_and_the_limit_and_goes_no_further_than_gap_and_step(
    pod: PodUse, limits: MemoryBounds, gap: Decimal | None
) -> None:
    change = throttle_memory(pod, limits, gap)
    if change is None:
        return
    before, after = pod.memory_high_bytes, change.after_bytes
    held = held_bytes(pod)
    assert after is not None
    assert held is not None
    assert after >= floor_bytes(pod, limits)
    assert before is None or after < before
    base = held if before is None else min(held, D(before))
    assert change.amount_bytes == base - after >= limits.min_change_bytes
    assert change.amount_bytes <= limits.step_ratio * base
    assert gap is None or change.amount_bytes < gap + PAGE_BYTES
    assert change.amount_bytes <= releasable_bytes(pod, limits)


@given(pods(), bounds, st.integers(1, 100))
def test_a_cut_is_as_far_as_the_gap_where_step_and_floor_allow(pod: PodUse, limits: MemoryBounds, part: int) -> None:
    held = held_bytes(pod)
    assert held is not None
    base = held if pod.memory_high_bytes is None else min(held, D(pod.memory_high_bytes))
    gap = min(limits.step_ratio * base, releasable_bytes(pod, limits)) * part // 100
    if gap < limits.min_change_bytes + PAGE_BYTES:
        return
    change = throttle_memory(pod, limits, gap)
    assert change is not None
    assert gap - PAGE_BYTES < change.amount_bytes < gap + PAGE_BYTES


@given(pods(), bounds, st.none() | st.integers(0, 32 * GIB).map(D), st.none() | st.integers(GIB, 64 * GIB))
def test_a_raise_stays_within_headroom_and_original(
    pod: PodUse, limits: MemoryBounds, headroom: Decimal | None, capacity: int | None
) -> None:
    change = restore_memory(pod, limits, headroom, capacity)
    if change is None:
        return
    before, original = pod.memory_high_bytes, pod.original_memory_high_bytes
    assert before is not None
    assert change.after_bytes is None or change.after_bytes > before
    assert original is None or (change.after_bytes is not None and change.after_bytes <= original)
    assert headroom is None or change.amount_bytes <= headroom
    assert change.amount_bytes >= 0


@given(pods().filter(is_memory_throttled), bounds, st.integers(0, 32 * GIB).map(D))
def test_a_raise_that_binds_is_within_what_is_free_or_small(pod: PodUse, limits: MemoryBounds, free: Decimal) -> None:
    change = restore_memory(pod, limits, None, None, free)
    before = pod.memory_high_bytes
    assert before is not None
    if change is None or change.amount_bytes == 0:
        return
    assert change.amount_bytes <= max(free, D("0.1") * before, D(limits.min_change_bytes + PAGE_BYTES))
    known = restore_memory(pod, limits, None, None)
    assert known is not None
    assert change.amount_bytes <= known.amount_bytes


@given(pods().filter(is_memory_throttled), bounds)
def test_raises_reach_exactly_the_original(pod: PodUse, limits: MemoryBounds) -> None:
    for _ in range(5000):
        change = restore_memory(pod, limits, None, 64 * GIB)
        if change is None:
            break
        pod = replace(pod, memory_high_bytes=change.after_bytes)
    assert pod.memory_high_bytes == pod.original_memory_high_bytes


@given(pods(), bounds)
def test_cuts_end_at_the_floor(pod: PodUse, limits: MemoryBounds) -> None:
    """Repeated as often as needed, with nothing dropped yet: what is pending is not released twice."""
    total = D(0)
    most = releasable_bytes(pod, limits)
    while (change := throttle_memory(pod, limits, None)) is not None:
        total += change.amount_bytes
        pod = replace(pod, memory_high_bytes=change.after_bytes)
    assert total <= most


def test_an_unmeasured_pod_is_left_alone() -> None:
    assert throttle_memory(use("u", memory=4 * GIB), MemoryBounds(), D(GIB)) is None
    assert throttle_memory(use("u", memory=None, reclaimable_bytes=GIB), MemoryBounds(), D(GIB)) is None


def test_a_pod_without_page_cache_is_at_its_floor() -> None:
    assert throttle_memory(use("u", memory=4 * GIB, reclaimable_bytes=0), MemoryBounds(), D(GIB)) is None


def test_a_limit_that_does_not_bind_goes_at_once() -> None:
    pod = use("u", memory=GIB, reclaimable_bytes=0, memory_high_bytes=2 * GIB)
    change = restore_memory(pod, MemoryBounds(), D(0), None)
    assert change is not None
    assert (change.after_bytes, change.amount_bytes) == (None, 0)


def test_what_a_new_limit_has_to_release_is_credited_for_a_time() -> None:
    pod = use("u", memory=GIB, reclaimable_bytes=3 * GIB, memory_high_bytes=2 * GIB, memory_high_since=NOON)
    assert pending_bytes(pod, NOON) == 2 * GIB
    assert pending_bytes(pod, NOON + timedelta(seconds=CREDIT_SECONDS + 1)) == 0
    assert pending_bytes(replace(pod, reclaimable_bytes=GIB), NOON) == 0, "the page cache is dropped"
