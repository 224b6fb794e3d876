"""One cgroup: its settings, what its pod uses, and the text that each kernel file shows or takes.

The rules are those of Linux 6.18 as read from its files on a machine with cgroup v1, and of Linux 6.1 in a guest with
v2 (`make cgroup2`): shares are clamped and refused while a group is idle; quotas below 1 ms, below the group's burst,
and above the parent's ratio on v1 are refused; byte values are cut to pages; a v1 limit below the usage reclaims page
cache first and is refused (EBUSY) if that does not suffice; memory.high reclaims and never refuses.
tests/integration/agent/test_driver_conformance.py holds the same rules against the kernel of the machine it runs on.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

PAGE = 4096
UNLIMITED_V1 = (1 << 63) - PAGE
MIN_QUOTA_US, MAX_QUOTA_US = 1_000, 1 << 43
MIN_PERIOD_US, MAX_PERIOD_US = 1_000, 1_000_000
DEFAULT_PERIOD_US = 100_000
DEFAULT_SHARES, MIN_SHARES, MAX_SHARES = 1024, 2, 262_144
IDLE_SHARES = 3
_WHOLE = re.compile(r"[+-]?\d+")


def refused(number: int, path: str = "") -> OSError:
    """The OSError (of the right subclass) of an errno."""
    return OSError(number, os.strerror(number), path)


@dataclass(slots=True, eq=False)
class Group:
    """`limit`, `high`: bytes, None = unlimited. `anonymous` and `cache` are the bytes of the pod in it, if any."""

    name: str
    parent: Group | None = None
    children: dict[str, Group] = field(default_factory=dict)
    shares: int = DEFAULT_SHARES
    weight: int = 100
    is_idle: bool = False
    quota_us: int | None = None
    period_us: int = DEFAULT_PERIOD_US
    burst_us: int = 0
    limit: int | None = None
    high: int | None = None
    low: int = 0
    min: int = 0
    is_oom_off: bool = False
    anonymous: int = 0
    cache: int = 0
    oom_kills: int = 0
    is_over: bool = False
    """More was asked for than the limit allows, and nothing is left to reclaim."""
    refault_pages: int = 0
    periods: int = 0
    throttled_periods: int = 0
    cpu_ns: int = 0

    def all(self) -> Iterator[Group]:
        yield self
        for child in self.children.values():
            yield from child.all()

    @property
    def usage(self) -> int:
        if not self.children:
            return self.anonymous + self.cache
        return self.anonymous + self.cache + sum(child.usage for child in self.children.values())

    def total(self, counter: str) -> int:
        own: int = getattr(self, counter)
        return own + sum(child.total(counter) for child in self.children.values())

    @property
    def cpu_limit_milli(self) -> float | None:
        return None if self.quota_us is None else self.quota_us * 1000 / self.period_us

    @property
    def scheduler_weight(self) -> int:
        return IDLE_SHARES if self.is_idle else self.shares

    def reclaim(self, most: int) -> int:
        """Drop page cache, the largest first; returns how many bytes of it were dropped."""
        dropped = 0
        for group in sorted(self.all(), key=lambda group: -group.cache):
            part = min(group.cache, most - dropped)
            group.cache -= part
            dropped += part
        return dropped


Reader = Callable[[Group], str]
Writer = Callable[[Group, str], None]


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise refused(errno.EINVAL)
    return int(text)


def _bytes_v1(text: str) -> int | None:
    value = UNLIMITED_V1 if text == "-1" else _pages(text)
    return None if value >= UNLIMITED_V1 else value


def _bytes_v2(text: str) -> int | None:
    return None if text == "max" else _pages(text)


def _pages(text: str) -> int:
    if not text.isdecimal():
        raise refused(errno.EINVAL)
    return int(text) // PAGE * PAGE


def _write_shares(group: Group, text: str) -> None:
    value = _whole(text)
    if value < 0 or group.is_idle:
        raise refused(errno.EINVAL)
    group.shares = min(MAX_SHARES, max(MIN_SHARES, value))


def _write_weight(group: Group, text: str) -> None:
    value = _whole(text)
    if value < 0:  # the file is read as an unsigned number
        raise refused(errno.EINVAL)
    if not 1 <= value <= 10_000:
        raise refused(errno.ERANGE)
    if group.is_idle:
        raise refused(errno.EINVAL)
    group.weight, group.shares = value, value * DEFAULT_SHARES // 100


def _write_idle(group: Group, text: str) -> None:
    if text not in ("0", "1"):
        raise refused(errno.EINVAL)
    if group.is_idle and text == "0":
        group.shares, group.weight = DEFAULT_SHARES, 100
    group.is_idle = text == "1"


def _ratio(quota_us: int | None, period_us: int) -> float:
    return float("inf") if quota_us is None else quota_us / period_us


def _set_quota(group: Group, quota_us: int | None, period_us: int, *, is_bounded: bool) -> None:
    """On v1 no group may have more of a CPU than the group it is in."""
    if quota_us is not None and not MIN_QUOTA_US <= quota_us <= MAX_QUOTA_US:
        raise refused(errno.EINVAL)
    if not MIN_PERIOD_US <= period_us <= MAX_PERIOD_US or (quota_us is not None and group.burst_us > quota_us):
        raise refused(errno.EINVAL)
    ratio = _ratio(quota_us, period_us)
    above, above_ratio = group.parent, float("inf")
    while above is not None and above_ratio == float("inf"):
        above_ratio, above = _ratio(above.quota_us, above.period_us), above.parent
    below = max(
        (_ratio(one.quota_us, one.period_us) for one in group.all() if one is not group and one.quota_us), default=0.0
    )
    if is_bounded and ((ratio != float("inf") and ratio > above_ratio) or below > ratio):
        raise refused(errno.EINVAL)
    group.quota_us, group.period_us = quota_us, period_us


def _write_quota_v1(group: Group, text: str) -> None:
    value = _whole(text)
    _set_quota(group, None if value < 0 else value, group.period_us, is_bounded=True)


def _write_period_v1(group: Group, text: str) -> None:
    _set_quota(group, group.quota_us, _whole(text), is_bounded=True)


def _write_burst(group: Group, text: str) -> None:
    value = _whole(text)
    if value < 0 or (group.quota_us is not None and value > group.quota_us):
        raise refused(errno.EINVAL)
    group.burst_us = value


def _write_cpu_max(group: Group, text: str) -> None:
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise refused(errno.EINVAL)
    quota = None if words[0] == "max" else _whole(words[0])
    _set_quota(group, quota, _whole(words[1]) if len(words) == 2 else group.period_us, is_bounded=False)


def _write_limit_v1(group: Group, text: str) -> None:
    limit = _bytes_v1(text)
    usage = group.usage
    if limit is not None and usage > limit and usage - group.reclaim(usage - limit) > limit:
        raise refused(errno.EBUSY)
    group.limit = limit


def _write_max_v2(group: Group, text: str) -> None:
    """What cannot be reclaimed ends a process of the group; the machine does that."""
    limit = _bytes_v2(text)
    if limit is not None and (usage := group.usage) > limit:
        group.reclaim(usage - limit)
        group.is_over = group.usage > limit
    group.limit = limit


def _write_high(group: Group, text: str) -> None:
    group.high = _bytes_v2(text)
    if group.high is not None and (usage := group.usage) > group.high:
        group.reclaim(usage - group.high)


def _write_low(group: Group, text: str) -> None:
    value = _bytes_v2(text)
    group.low = UNLIMITED_V1 if value is None else value


def _write_min(group: Group, text: str) -> None:
    value = _bytes_v2(text)
    group.min = UNLIMITED_V1 if value is None else value


def _write_oom_control(group: Group, text: str) -> None:
    if text not in ("0", "1"):
        raise refused(errno.EINVAL)
    group.is_oom_off = text == "1"


def _text_v1(value: int | None) -> str:
    return str(UNLIMITED_V1 if value is None else value)


def _text_v2(value: int | None) -> str:
    return "max" if value is None or value >= UNLIMITED_V1 else str(value)


def _memory_stat_v1(group: Group) -> str:
    anonymous, cache = group.total("anonymous"), group.total("cache")
    return (
        f"cache {group.cache}\ntotal_workingset_refault_file {group.total('refault_pages')}\n"
        f"total_inactive_anon 0\ntotal_active_anon {anonymous}\ntotal_inactive_file {cache}\ntotal_active_file 0\n"
        "total_unevictable 0"
    )


def _memory_stat_v2(group: Group) -> str:
    anonymous, cache = group.total("anonymous"), group.total("cache")
    return (
        f"anon {anonymous}\nfile {cache}\ninactive_anon 0\nactive_anon {anonymous}\ninactive_file {cache}\n"
        f"active_file 0\nunevictable 0\nworkingset_refault_file {group.total('refault_pages')}"
    )


def _cpu_stat(group: Group) -> str:
    periods, throttled = group.periods, group.throttled_periods
    return f"usage_usec {group.cpu_ns // 1000}\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 0"


@dataclass(frozen=True, slots=True)
class Controller:
    """The files of one tree: what they show, and which of them can be written."""

    readers: Mapping[str, Reader]
    writers: Mapping[str, Writer]


_IDLE: Reader = lambda group: "1" if group.is_idle else "0"  # noqa: E731
CPU_V1 = Controller(
    MappingProxyType(
        {
            "cpu.shares": lambda group: str(IDLE_SHARES if group.is_idle else group.shares),
            "cpu.idle": _IDLE,
            "cpu.cfs_quota_us": lambda group: "-1" if group.quota_us is None else str(group.quota_us),
            "cpu.cfs_period_us": lambda group: str(group.period_us),
            "cpu.cfs_burst_us": lambda group: str(group.burst_us),
            "cpu.stat": _cpu_stat,
        }
    ),
    MappingProxyType(
        {
            "cpu.shares": _write_shares,
            "cpu.idle": _write_idle,
            "cpu.cfs_quota_us": _write_quota_v1,
            "cpu.cfs_period_us": _write_period_v1,
            "cpu.cfs_burst_us": _write_burst,
        }
    ),
)
MEMORY_V1 = Controller(
    MappingProxyType(
        {
            "memory.limit_in_bytes": lambda group: _text_v1(group.limit),
            "memory.usage_in_bytes": lambda group: str(group.usage),
            "memory.oom_control": lambda group: (
                f"oom_kill_disable {int(group.is_oom_off)}\nunder_oom {int(group.is_over and group.is_oom_off)}\n"
                f"oom_kill {group.oom_kills}"
            ),
            "memory.stat": _memory_stat_v1,
        }
    ),
    MappingProxyType({"memory.limit_in_bytes": _write_limit_v1, "memory.oom_control": _write_oom_control}),
)
V2 = Controller(
    MappingProxyType(
        {
            "cpu.weight": lambda group: "0" if group.is_idle else str(group.weight),
            "cpu.idle": _IDLE,
            "cpu.max": lambda group: f"{'max' if group.quota_us is None else group.quota_us} {group.period_us}",
            "cpu.max.burst": lambda group: str(group.burst_us),
            "cpu.stat": _cpu_stat,
            "memory.max": lambda group: _text_v2(group.limit),
            "memory.high": lambda group: _text_v2(group.high),
            "memory.low": lambda group: _text_v2(group.low),
            "memory.min": lambda group: _text_v2(group.min),
            "memory.current": lambda group: str(group.usage),
            "memory.stat": _memory_stat_v2,
        }
    ),
    MappingProxyType(
        {
            "cpu.weight": _write_weight,
            "cpu.idle": _write_idle,
            "cpu.max": _write_cpu_max,
            "cpu.max.burst": _write_burst,
            "memory.max": _write_max_v2,
            "memory.high": _write_high,
            "memory.low": _write_low,
            "memory.min": _write_min,
        }
    ),
)
