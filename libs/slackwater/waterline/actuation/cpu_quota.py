"""CPU quotas of one pod by container: how far to lower or raise each, and what that releases or
restores.

All quotas are in the kernel's unit, microseconds per period, so that a restore ends exactly at the
original value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.facts.amounts import ZERO, exact
from slackwater.waterline.facts.pods import Container, PodUse

KERNEL_MINIMUM_US: Final = 1000
"""The kernel refuses a quota below one millisecond."""
_ONE: Final = Decimal(1)
WAITING_CAP: Final = Decimal("0.9")
"""Upper bound of the waiting share. A task that waited nearly all the time wanted much more than it
got, and the share no longer measures how much.
"""
BINDING_RATIO: Final = Decimal("0.9")
"""A quota used less than this does not limit its container: raising it costs nothing, so headroom
does not bound it.
"""


@dataclass(frozen=True, slots=True)
class ThrottleBounds:
    """How far one cycle may lower a container. All ratios are 0..1.

    min_ratio      of its declared limit stays
    step_ratio     of its quota is cut at most; 1: as far as the gap requires
    request_ratio  of its request stays
    min_milli      stays in any case, and never less than the kernel takes
    whole_steps    take the whole step even if less would close the gap, and from the quota instead of the usage:
                   the peer's behaviour, which also lowers unused quotas
    """

    min_ratio: Decimal = ZERO
    step_ratio: Decimal = _ONE
    request_ratio: Decimal = ZERO
    min_milli: int = 50
    whole_steps: bool = False


@dataclass(frozen=True, slots=True)
class RestoreBounds:
    """How far one cycle may raise a container: `step_ratio` of its quota, and never beyond the
    headroom unless `whole_steps`. `unlimited_at_milli`: a container without an original limit loses
    its quota when it would reach this.
    """

    step_ratio: Decimal = Decimal("0.5")
    whole_steps: bool = False
    unlimited_at_milli: Decimal | None = None


@record(frozen=True, slots=True)
class QuotaChange:
    """One quota before and after, microseconds per period (None = unlimited). `amount_milli` is
    what a cut releases, or what a raise may cost: the CPU that the container may use beyond what it
    used.
    """

    uid: str
    container: str
    before_us: int | None
    after_us: int | None
    period_us: int
    amount_milli: Decimal


def amount_of(changes: Iterable[QuotaChange]) -> Decimal:
    """Returns the sum that the changes of a pod release, or that they may cost."""
    amount = ZERO
    for change in changes:
        amount += change.amount_milli
    return amount


def milli_of(quota_us: int, period_us: int) -> Decimal:
    return Decimal(quota_us) * 1000 / period_us


def beyond_milli(container: Container) -> Decimal:
    """Returns its usage beyond its quota, which is transient: it ran in parts of two periods, or
    before the quota applied.
    """
    usage, quota = container.usage_milli, container.quota_us
    if quota is None or usage is None or usage * container.period_us <= quota * 1000:
        return ZERO
    return exact(usage) - milli_of(quota, container.period_us)


def steady_milli(container: Container) -> Decimal | None:
    """Returns the usage to expect once CPU is free; None if usage was not measured.

    Tasks that ran for U and waited a share p of their time wanted U / (1 - p), bounded by the
    quota. A container that waited nearly all the time, because CPU was short or its quota used up,
    has at least one task that runs for that share when possible. Without a quota the demand is
    unknown, and the usage counts.
    """
    if container.usage_milli is None:
        return None
    usage = exact(container.usage_milli)
    if container.quota_us is None:
        return usage
    held = milli_of(container.quota_us, container.period_us)
    if not container.waiting_ratio or usage >= held:
        return min(held, usage)
    waiting = exact(container.waiting_ratio)
    wanted = usage / (1 - min(waiting, WAITING_CAP))
    return min(held, wanted if waiting < WAITING_CAP else max(wanted, usage + 1000 * waiting))


def _us_of(milli: Decimal, period_us: int) -> int:
    return int(milli * period_us / 1000)


def quota_of(milli: Decimal, container: Container) -> int:
    """Returns the largest quota within so much CPU."""
    return _us_of(milli, container.period_us) // container.grain_us * container.grain_us


def floor_us(container: Container, bounds: ThrottleBounds) -> int:
    """Returns the lowest quota allowed for this container."""
    lowest = _lowest_us(container, bounds)
    return -(-lowest // container.grain_us) * container.grain_us


def _lowest_us(container: Container, bounds: ThrottleBounds) -> int:
    if not (bounds.min_ratio and container.limit_milli) and not (bounds.request_ratio and container.request_milli):
        return max(-(-bounds.min_milli * container.period_us // 1000), KERNEL_MINIMUM_US)
    kept = max(
        bounds.min_ratio * (container.limit_milli or 0),
        bounds.request_ratio * (container.request_milli or 0),
        Decimal(bounds.min_milli),
    )
    us = (kept * container.period_us / 1000).to_integral_value(ROUND_CEILING)
    return max(int(us), KERNEL_MINIMUM_US)


def waited_milli(container: Container) -> Decimal:
    """Returns the part of `steady_milli` that it did not get."""
    if container.quota_us is None or not container.waiting_ratio:
        return ZERO
    steady = steady_milli(container)
    return ZERO if steady is None else max(ZERO, steady - exact(container.usage_milli or 0))


def throttle_cpu(pod: PodUse, bounds: ThrottleBounds, gap_milli: Decimal | None) -> tuple[QuotaChange, ...]:
    """Returns the cuts of a pod, for a gap or (None) as far as the bounds allow. Their amounts add
    up to its release.
    """
    left, changes = gap_milli, []
    for container in pod.containers:
        if left is not None and left <= 0 and not bounds.whole_steps:
            break
        change = _cut(pod.uid, container, bounds, left)
        if change is not None:
            changes.append(change)
            left = None if left is None else left - change.amount_milli
    return tuple(changes)


def _cut(uid: str, container: Container, bounds: ThrottleBounds, gap: Decimal | None) -> QuotaChange | None:
    """Returns the cut of one container; None if it would release nothing, or (whole steps) change
    nothing.

    A quota in force but not yet visible in the usage is credited: the container uses at most its
    quota. The CPU it waits for within its quota must be cut as well, because it would otherwise
    replace what was cut.
    """
    if not container.name or container.usage_milli is None or not container.is_readable:
        return None
    usage, before, period = exact(container.usage_milli), container.quota_us, container.period_us
    held = usage if before is None else milli_of(before, period)
    base = held if before is None or bounds.whole_steps else steady_milli(container) or ZERO
    wanted = base * (_ONE - bounds.step_ratio)
    if gap is not None and not bounds.whole_steps:
        wanted = max(wanted, base - gap)
    after = max(_cut_to(wanted, container), floor_us(container, bounds))
    if before is not None:
        after = min(after, before)
    used = usage if bounds.whole_steps else base
    released = max(ZERO, used - max(wanted, milli_of(after, period)))
    if after == before or (released <= 0 and not bounds.whole_steps):
        return None
    return QuotaChange(uid, container.name, before, after, period, released)


def _cut_to(milli: Decimal, container: Container) -> int:
    """Returns the quota rounded up to whole grains, so that a cut stays short of the gap rather
    than beyond it.
    """
    if container.grain_us == 1:
        return _us_of(milli, container.period_us)
    us = (milli * container.period_us / 1000).to_integral_value(ROUND_CEILING)
    return -(-int(us) // container.grain_us) * container.grain_us


def restore_cpu(pod: PodUse, bounds: RestoreBounds, headroom_milli: Decimal | None) -> tuple[QuotaChange, ...]:
    """Returns the raises of a pod, the last container first, within the headroom or (None) by a
    whole step each.
    """
    left, changes = headroom_milli, []
    for container in reversed(pod.containers):
        if left is not None and left <= 0 and not bounds.whole_steps:
            break
        change = _raise(pod.uid, container, bounds, left)
        if change is not None:
            changes.append(change)
            left = None if left is None else left - change.amount_milli
    return tuple(changes)


def _raise(uid: str, container: Container, bounds: RestoreBounds, headroom: Decimal | None) -> QuotaChange | None:
    before, original, period = container.quota_us, container.original_quota_us, container.period_us
    if before is None or not container.name or not container.is_readable:
        return None
    if original is not None and before >= original:
        return None
    held = milli_of(before, period)
    usage = held if container.usage_milli is None else exact(container.usage_milli)
    top = bounds.unlimited_at_milli if original is None else milli_of(original, period)
    wanted = held * (1 + bounds.step_ratio)
    costs = bounds.whole_steps or usage >= BINDING_RATIO * held
    if headroom is not None and costs and not bounds.whole_steps:
        wanted = min(wanted, max(held, usage + headroom))
    if top is not None and wanted >= top:
        return QuotaChange(uid, container.name, before, original, period, max(ZERO, top - usage) if costs else ZERO)
    least = before + container.grain_us if wanted > held and not bounds.whole_steps else 0
    after = max(quota_of(wanted, container), least)
    if original is not None:  # which may lie between two grains
        after = min(after, original)
    if after <= before:
        return None
    return QuotaChange(uid, container.name, before, after, period, max(ZERO, wanted - usage) if costs else ZERO)
