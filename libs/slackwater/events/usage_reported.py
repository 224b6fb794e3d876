"""usage.reported: what an agent measured since its last report. Telemetry: latest wins, a loss is a visible gap."""

from __future__ import annotations

import operator
from typing import ClassVar, Literal

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.events.measures import HostAppUsage, PodUsage, Pressure, Usage
from slackwater.model.bounds import Count, Items, Moment, Name, Seconds
from slackwater.model.devices import DiskUse, LinkUse


class UsageReported(Payload):
    """One node, one window. `boot_epoch` and `sequence` (from 1, no holes) make restarts and gaps visible.

    `system` is node minus all managed pods and host applications, floored at zero per sample; None when it could not be
    measured (never zero in place of unknown). `prod_pressure` is the pressure of all prod pods together. `disks` and
    `links` are the averages of the window, of those that can be read: none where the machine hides them. `alone`: the
    agent decided by itself when this was sent, so whoever decides for the node otherwise waits until he is heard.
    `host_apps` and `alone` are left out where there is nothing to say.
    """

    TYPE: ClassVar[str] = "usage.reported"
    STREAM: ClassVar[str] = "USAGE"

    node: Name
    boot_epoch: Name
    sequence: Count
    sampled_at: Moment
    window_seconds: Seconds
    trigger: Literal["interval", "waterline", "shutdown"] = "interval"
    dropped_reports: Count = 0
    node_usage: Usage
    system_usage: Usage | None = None
    node_pressure: Pressure = Pressure()
    prod_pressure: Pressure = Pressure()
    pods: Items[PodUsage] = ()
    disks: Items[DiskUse] = ()
    links: Items[LinkUse] = ()
    host_apps: Items[HostAppUsage] = Field(default=(), exclude_if=operator.not_)
    alone: bool = Field(default=False, exclude_if=operator.not_)

    def key(self) -> str:
        return self.node


def said_alone(report: UsageReported) -> UsageReported:
    """The same report of an agent that decides by itself."""
    return report.model_copy(update={"alone": True})
