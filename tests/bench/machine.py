"""The conditions of a measurement: speed and load of the machine, and CPU time stolen by the host."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.verdict import REFERENCE_ROUNDS_PER_SECOND, Conditions

from slackwater.demo.programs.service import seconds_per_round


@dataclass(frozen=True, slots=True)
class MachineReading:
    """One reading: rounds per second of the calibration loop, total jiffies of all CPUs, and stolen ones."""

    calibration: float
    jiffies: int
    stolen: int

    @property
    def speed(self) -> float:
        return self.calibration / REFERENCE_ROUNDS_PER_SECOND


def read_machine() -> MachineReading:
    """Calibrates for 0.3 s of CPU time, then reads the counters."""
    rounds = 1 / seconds_per_round()
    return MachineReading(rounds, *read_jiffies())


def read_jiffies() -> tuple[int, int]:
    """Total jiffies of all CPUs, and stolen ones."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(words), words[7]


def stolen_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The share of CPU time that the host stole between two readings of jiffies."""
    span = after[0] - before[0]
    return (after[1] - before[1]) / span if span > 0 else 0.0


def conditions(before: MachineReading, after: MachineReading) -> Conditions:
    """The conditions between two readings; the calibration of the second one is part of the span."""
    share = stolen_share((before.jiffies, before.stolen), (after.jiffies, after.stolen))
    return Conditions(before.calibration, after.calibration, share)


def described() -> dict[str, Any]:
    """The description of the machine."""
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }
