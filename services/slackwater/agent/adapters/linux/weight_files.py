"""Where CPU weights and limits are written, and in which notation, on v1 and v2."""

from __future__ import annotations

from pathlib import Path

from slackwater.agent.domain.weights import weight_of_shares

MIN_QUOTA_US = 1000
"""The kernel refuses a smaller cfs quota (kernel/sched/core.c: min_cfs_quota_period is 1 ms)."""


def weight_file(directory: Path, pure_v2: bool) -> Path:
    return directory / ("cpu.weight" if pure_v2 else "cpu.shares")


def weight_text(shares: int, pure_v2: bool) -> str:
    return str(weight_of_shares(shares)) if pure_v2 else str(shares)


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
