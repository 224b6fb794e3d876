"""usage.reported: an agent's measurements since its last report. Telemetry: latest wins, a loss is a visible gap."""

from __future__ import annotations

import operator
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Interval
from msgspec import Meta
from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.events.measures import HostAppUsage, KnownBytes, PodUsage, Pressure, Usage, is_unknown
from slackwater.model.bounds import MOST_BYTES_PER_SECOND, Count, Items, Moment, Name, Seconds
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.placement_rules import Few
from slackwater.model.pods import Pod

RefaultRate = Annotated[float, Interval(ge=0, le=MOST_BYTES_PER_SECOND), Meta(ge=0, le=MOST_BYTES_PER_SECOND)]

Trigger = Literal["interval", "waterline", "shutdown", "leave"]
"""The reason of a report: its interval is over, a waterline was crossed, the agent stops, its node leaves."""
LEAVE_TRIGGER: Final = "leave"


class UsageReported(Payload):
    """The usage of one node in one window. `boot_epoch` and `sequence` (from 1, no gaps) expose restarts and losses.

    `system_usage` is node minus all managed pods and host applications, floored at zero per sample; None if it could
    not be measured. `prod_pressure` is the pressure of all prod pods together. `disks` and `links` are averages over
    the window of the readable devices. `alone`: the agent was disconnected and decided by itself when it sent the
    report, so the service that decides for the node waits until the agent receives its leases again. `host_apps` and
    `alone` are omitted if empty or false. `prod_refault_bytes_per_second` is what prod pods read again per second of
    the file pages that were evicted from their page cache; omitted if unknown. `node_free_bytes` is memory that nothing
    uses, page cache neither, at `sampled_at`; omitted if unknown. `cpu_weights` are the weights of tiers that
    the agent read back from the kernel, if they put prod first; else omitted. `intent_declared_at` is the `declared_at`
    of ensurance's document that the agent holds, by which ensurance learns that the broker lost a newer one; omitted
    without a document. `failed_pods` are pods that have ended with a failure and are still listed by the API server:
    they use nothing, and are omitted if there are none. After a report with the trigger `leave` the node counts as lost
    at once, until a later report. `left_out` are the values of this report and of the node's description that no reader
    would accept, with what was sent instead, like `pod shop/web: request.cpu_milli: 16000000 is capped at 10000000`;
    omitted if there are none.
    """

    TYPE: ClassVar[str] = "usage.reported"
    STREAM: ClassVar[str] = "USAGE"
    FROM_AGENT: ClassVar[bool] = True

    node: Name
    boot_epoch: Name
    sequence: Count
    sampled_at: Moment
    window_seconds: Seconds
    trigger: Trigger = "interval"
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
    prod_refault_bytes_per_second: RefaultRate | None = Field(default=None, exclude_if=is_unknown)
    node_free_bytes: KnownBytes = None
    cpu_weights: Literal["by-tier", "by-tier-idle"] | None = Field(default=None, exclude_if=is_unknown)
    intent_declared_at: Moment | None = Field(default=None, exclude_if=is_unknown)
    failed_pods: Items[Pod] = Field(default=(), exclude_if=operator.not_)
    left_out: Few[Name] = Field(default=(), exclude_if=operator.not_)

    def key(self) -> str:
        return self.node


def is_disconnected(report: UsageReported) -> UsageReported:
    """A copy of the report with `alone` set."""
    return report.model_copy(update={"alone": True})
