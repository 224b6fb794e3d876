"""The controls of an agent: one entry each, in the order in which they are applied."""

from __future__ import annotations

from typing import Any

from slackwater.agent.domain.controls.borrowed_memory import BorrowedMemory
from slackwater.agent.domain.controls.control import Control
from slackwater.agent.domain.controls.cpu_burst import CpuBurst
from slackwater.agent.domain.controls.cpu_limit import CpuLimit
from slackwater.agent.domain.controls.cpu_weight import CpuWeight
from slackwater.agent.domain.controls.cpusets import CPUSETS
from slackwater.agent.domain.controls.memory_high import MemoryHigh, MemoryPause
from slackwater.agent.domain.controls.memory_protection import PROTECTIONS
from slackwater.agent.domain.controls.node_memory import NodeMemory

_MEMORY: tuple[Control[Any], ...] = (NodeMemory(), BorrowedMemory(), MemoryPause(), MemoryHigh(), *PROTECTIONS)
CONTROLS: tuple[Control[Any], ...] = (CpuBurst(), CpuLimit(), CpuWeight(), *CPUSETS, *_MEMORY)
KNOBS = tuple(control.knob for control in CONTROLS)
CONTROLLERS = tuple(
    dict.fromkeys(file.controller for knob in KNOBS for file in (knob.v1, knob.v2) if file is not None),
)
"""Cgroup controllers that the knobs need."""
