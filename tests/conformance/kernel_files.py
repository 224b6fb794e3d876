"""Suites of crane.json and koordlet_qos.json about what the kernel prints: as the agent reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.agent.adapters.linux.meters import busy_ns, flat
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT, MIN_QUOTA_US
from slackwater.agent.domain.rates import milli_of

_FIELDS = ("User", "Nice", "System", "Idle", "Iowait", "Irq", "Softirq", "Steal")
_NANOS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class _File:
    """A cgroup of which every file has this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, name: str) -> str:
        return self._text if name else ""


def cpu_times(case: Case) -> Verdict:
    """Busy and idle percent between two lines of /proc/stat. Where no time has passed the agent knows neither."""
    before, after = ({name: int(case["in"][when].get(name, 0)) for name in _FIELDS} for when in ("prev", "cur"))
    passed = (sum(after.values()) - sum(before.values())) * _NANOS_PER_TICK
    busy = milli_of(_busy(before), _busy(after), passed / 1e9) if passed else 0
    got = {"busy_pct": (busy or 0) / 10, "idle_pct": 100 - (busy or 0) / 10 if passed else 0}
    return compare(got, wanted(case))


def _busy(times: Mapping[str, int]) -> int | None:
    return busy_ns(f"cpu  {' '.join(str(times[name]) for name in _FIELDS)}\n".encode())


def usage(case: Case) -> Verdict:
    try:
        [usage_us] = flat(case["in"]["content"].encode(), b"usage_usec")
    except ValueError:
        return compare({"error": True}, wanted(case))
    return compare({"error": True} if usage_us is None else {"ns": usage_us * 1000}, wanted(case))


def cpu_max(case: Case) -> Verdict:
    """In milli-cores, as the agent holds a limit; -1 is none."""
    content, want = case["in"]["content"], wanted(case)
    try:
        milli = CPU_LIMIT.v2.parse(content, _File(content))
    except (ValueError, IndexError):
        return compare({"error": True}, want) if "quota" not in want else differ("whole-lines")
    if "quota" not in want:
        return Verdict("FAIL", f"got {milli} milli-cores, want {want}")
    return compare(milli, _milli(want["quota"], content))


def _milli(quota: int, content: str) -> Any:
    period = int(content.split()[1])
    if 0 <= quota < MIN_QUOTA_US:  # which the kernel refuses: nothing is rounded to it
        return quota
    return None if quota == -1 else (quota * 1000 + period // 2) // period


CRANE: Mapping[str, Adaptor] = {"cpu_times": cpu_times}
KOORDLET: Mapping[str, Adaptor] = {"cg2_usage": usage, "cg2_cpu_max": cpu_max}
