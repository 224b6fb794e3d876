"""usage.windowed: the validated usage of one node in one aligned window. Durable; folded exactly once."""

from __future__ import annotations

import operator
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier


@record(frozen=True, slots=True)
class WindowedUsage:
    """Average, p90, p95 and maximum in one window: CPU in milli-cores, memory in bytes. `samples` 0 means absent."""

    cpu_avg_milli: int
    cpu_p90_milli: int
    cpu_p95_milli: int
    cpu_max_milli: int
    memory_avg_bytes: int
    memory_p90_bytes: int
    memory_p95_bytes: int
    memory_max_bytes: int
    samples: int


@record(frozen=True, slots=True)
class WindowedPod:
    """A pod that was measured in the window."""

    pod: Pod
    usage: WindowedUsage


@record(frozen=True, slots=True)
class WindowedHostApp:
    """A host application that was measured in the window; the system's usage does not contain it."""

    name: str
    tier: Tier
    usage: WindowedUsage


class UsageWindowed(Payload):
    """Windows of a node are numbered: `number` = window_start // window_seconds, so a repeat is recognisable.

    `tiers` has an entry only for tiers that had pods. `gaps` counts reports known to be missing from the window.
    `host_apps` is left out where there are none.
    """

    TYPE: ClassVar[str] = "usage.windowed"
    STREAM: ClassVar[str] = "WINDOWS"

    node: str
    number: int
    window_start: datetime
    window_seconds: int
    node_usage: WindowedUsage
    system_usage: WindowedUsage | None
    tiers: dict[str, WindowedUsage]
    pods: tuple[WindowedPod, ...]
    reports: int
    gaps: int
    host_apps: tuple[WindowedHostApp, ...] = Field(default=(), exclude_if=operator.not_)

    def key(self) -> str:
        return self.node
