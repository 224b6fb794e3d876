"""Where CPU weights and limits are written, and in which notation, on v1 and v2."""

from __future__ import annotations

from pathlib import Path

from slackwater.agent.domain.weights import IDLE_SHARES, MIN_SHARES, weight_of_shares

IDLE = "idle"
"""What a weight file is said to hold while its group is scheduled as idle. Weight and cpu.idle are one value to us: the
kernel refuses a weight while a group is idle, and forgets the weight of before."""
_SHOWN_WHILE_IDLE = ("3", "0", "1")
"""What kernels show in cpu.shares (3) and cpu.weight (0 or 1) of an idle group: only these are looked at twice."""
MIN_QUOTA_US = 1000
"""The kernel refuses a smaller cfs quota (kernel/sched/core.c: min_cfs_quota_period is 1 ms)."""


def weight_file(directory: Path, pure_v2: bool) -> Path:
    return directory / ("cpu.weight" if pure_v2 else "cpu.shares")


def weight_text(shares: int, pure_v2: bool) -> str:
    return str(weight_of_shares(shares)) if pure_v2 else str(shares)


def idle_file(weight: Path) -> Path:
    return weight.with_name("cpu.idle")


def weight_or_idle_text(weight: Path, shares: int, pure_v2: bool) -> str:
    """As `weight_text`, and IDLE for IDLE_SHARES; the smallest weight instead where the kernel has no cpu.idle."""
    if shares != IDLE_SHARES:
        return weight_text(shares, pure_v2)
    return IDLE if idle_file(weight).exists() else weight_text(MIN_SHARES, pure_v2)


def shown(weight: Path, text: str) -> str:
    """The value of a weight file that shows `text`: the text itself, or IDLE. Raises OSError."""
    if text not in _SHOWN_WHILE_IDLE or not idle_file(weight).exists():
        return text
    return IDLE if idle_file(weight).read_text().strip() == "1" else text


def writes(weight: Path, text: str) -> tuple[tuple[Path, str], ...]:
    """Which files get which text, in order, to make a weight `text`. A group that stops being idle has the kernel's
    default weight for a moment, which is what a tier of ours had before us, too."""
    idle = idle_file(weight)
    if text == IDLE:
        return ((idle, "1"),)
    is_idle = idle.exists() and idle.read_text().strip() == "1"
    return ((idle, "0"), (weight, text)) if is_idle else ((weight, text),)


def limit_file(directory: Path, pure_v2: bool) -> Path:
    return directory / ("cpu.max" if pure_v2 else "cpu.cfs_quota_us")


def write_first_limit(directory: Path, limit_milli: int | None, period_us: int, pure_v2: bool) -> None:
    """Set period and limit (None = unlimited) of a cgroup that has no limit yet."""
    quota = None if limit_milli is None else quota_us(limit_milli, period_us)
    if pure_v2:
        (directory / "cpu.max").write_text(f"{'max' if quota is None else quota} {period_us}")
        return
    (directory / "cpu.cfs_period_us").write_text(str(period_us))
    if quota is not None:
        (directory / "cpu.cfs_quota_us").write_text(str(quota))


def quota_us(limit_milli: int, period_us: int) -> int:
    """The quota per period of a limit; never below the kernel's minimum."""
    return max(MIN_QUOTA_US, limit_milli * period_us // 1000)


def milli_of_quota(quota: int, period_us: int) -> int:
    """The limit in milli-cores of a quota, rounded to the nearest."""
    return (quota * 1000 + period_us // 2) // period_us
