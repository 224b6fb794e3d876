"""The CPU burst of a pod that is throttled below it.

The kernel refuses a quota below the burst of its group (kernel/sched/core.c, tg_set_cfs_bandwidth: EINVAL), so the
burst goes to 0 before such a limit is written, and comes back after the limit is back. A limit at or above the burst
leaves it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from slackwater.agent.domain.controls.cpu_limit import PERIOD_FILE, CpuLimit
from slackwater.agent.domain.knobs import CgroupFiles, KernelFile, KnobSpec, Value


def _no_burst(value: Value, files: CgroupFiles) -> str:
    return "0"


def _milli_of_burst(burst_us: int, period_us: int) -> int:
    """The smallest limit in milli-cores that the kernel takes beside a burst."""
    return -(-burst_us * 1000 // period_us)


def _parse_v1(text: str, files: CgroupFiles) -> Value:
    return _milli_of_burst(int(text), int(files.read(PERIOD_FILE)))


def _parse_v2(text: str, files: CgroupFiles) -> Value:
    return _milli_of_burst(int(text), int(files.read("cpu.max").split()[1]))


CPU_BURST = KnobSpec(
    name="cpu_burst",
    default=0,
    v1=KernelFile("cpu", "cpu.cfs_burst_us", _no_burst, _parse_v1),
    v2=KernelFile("cpu", "cpu.max.burst", _no_burst, _parse_v2),
    words=MappingProxyType({}),
)
"""Set to the limit in milli-cores for which there must be no burst. Kernels before 5.14 have no such file."""


@dataclass(frozen=True, slots=True)
class CpuBurst(CpuLimit):
    """See Control. The same limits as CpuLimit's; each is written, as a burst of 0, only where it is below the burst
    of before. It is applied before CpuLimit, and so given back after it."""

    knob: ClassVar[KnobSpec] = CPU_BURST
